# Puts files and links in place. Arguments, four for each: `place DIGEST PATH MODE` or `link TARGET PATH -`. STORE: content
# by its digest.
# WHITELIST: the folders that they may go into. KEPT: where what was there before is kept.
#
# The first time they keep what is there, the second time they replace it; in between the content that will is hashed. A
# folder is followed to where it
# really is first, and nobody but root may lead it elsewhere afterwards: below the whitelist's own folders it and
# its parents are root's, or not there yet. Where others may add files, as in /tmp, a new file gets a name that
# nobody could guess.
umask 022
(umask 077; mkdir -p "$KEPT")

inside() {
  [ "$pass $1" != "$seen" ] || return 0
  look "$1"
  if [ $pass = second ]; then mkdir -p "$1"; look "$1"; fi
  seen="$pass $1"
}
look() {
  folder=$1 real=$(readlink -m -- "$1")
  roots "$folder"
  [ "$real" = "$folder" ] || roots "$real"
}
roots() {
  at=$1
  for allowed in $WHITELIST; do case $at in
    "$allowed" | "$allowed"/*)
      while [ "$at" != "$allowed" ]; do
        if has=$(stat -c '%u:%g %a' -- "$at" 2>/dev/null); then
          [ ! -L "$at" ] || has="${has%% *} 0"
          case $has in
            0:*' '[1357]???) ;;
            0:*[2367]) echo "shared: $at"; exit 9 ;;
            0:0' '*) ;;
            0:*[2367]? | [!0]*) echo "shared: $at"; exit 9 ;;
          esac
        fi
        at=${at%/*}
      done
      return 0 ;;
  esac; done
  echo "leads out: $folder -> $real"; exit 9
}
keep() {
  if [ ! -e "$KEPT/original$1" ] && [ ! -L "$KEPT/original$1" ] && [ ! -e "$KEPT/absent$1" ]; then
    if [ -e "$1" ] || [ -L "$1" ]; then
      mkdir -p "$KEPT/original${1%/*}"; remove "$KEPT" "$KEPT/original$1.new"; cp -a "$1" "$KEPT/original$1.new"
      mv -f "$KEPT/original$1.new" "$KEPT/original$1"; fresh=yes
    else mkdir -p "$KEPT/absent${1%/*}"; : > "$KEPT/absent$1"; fi
  elif [ -f "$1" ]; then
    mkdir -p "$KEPT/previous${1%/*}"; cp -a "$1" "$KEPT/previous$1.new"
    mv -f "$KEPT/previous$1.new" "$KEPT/previous$1"; fresh=yes
  fi
}
place() {
  source=$STORE/$1 path=$2; inside "${path%/*}"
  if [ -f "$path" ] && [ ! -L "$path" ] && cmp -s "$source" "$path" && [ "$(stat -c '%a %U:%G' "$path")" = "$3 root:root" ]
  then return 0; fi
  if [ $pass = first ]; then keep "$path"; used="$used $source"; return 0; fi
  rm -f "$path".eggo-new.??????; new=$(mktemp "$path.eggo-new.XXXXXX")
  cp "$source" "$new"; chown root:root "$new"; chmod "$3" "$new"
  mv -fT "$new" "$path"; echo changed
}
link() {
  path=$2; inside "${path%/*}"
  if [ -L "$path" ] && [ "$(readlink "$path")" = "$1" ]; then return 0; fi
  if [ $pass = first ]; then keep "$path"; return 0; fi
  rm -f "$path.eggo-new"; ln -sn "$1" "$path.eggo-new"; mv -fT "$path.eggo-new" "$path"; echo changed
}
all() { while [ $# -gt 0 ]; do "$1" "$2" "$3" "$4"; shift 4; done; }

fresh='' seen='' used='' pass=first; all "$@"
# shellcheck disable=SC2086 # The names are digests, below a folder of ours.
intact $used
[ -z "$fresh" ] || settle "$KEPT"
pass=second; all "$@"
# A unit file may be among them.
systemctl daemon-reload 2>/dev/null || :
