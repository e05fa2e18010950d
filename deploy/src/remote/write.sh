# Puts files in place. Standard input: a tar of them, named by numbers. Arguments, four for each file:
# its number, path, mode and owner. KEPT: where what was there before us is kept.
umask 077; mkdir -p "$KEPT"
work=$(mktemp -d "$KEPT/work.XXXXXX"); trap 'remove "$KEPT" "$work"' EXIT; trap 'exit 1' HUP INT PIPE TERM
tar -x -C "$work" -f - 2>&1 || { cat >/dev/null; exit 1; }
umask 022

# The first time it keeps what was there before us, the second time it copies beside and renames.
place() {
  new=$work/$1 path=$2 mode=$3 owner=$4
  if [ -f "$path" ] && [ ! -L "$path" ] && cmp -s "$new" "$path" &&
     [ "$(stat -c '%a %U:%G' "$path")" = "$mode $owner" ]; then [ $pass = first ] || echo same; return; fi
  if [ $pass = first ]; then keep; return; fi
  mkdir -p "${path%/*}"
  cp "$new" "$path.eggo-new"; chown "$owner" "$path.eggo-new"; chmod "$mode" "$path.eggo-new"
  mv -fT "$path.eggo-new" "$path"; echo changed
}
keep() {
  if [ -e "$KEPT/original$path" ] || [ -L "$KEPT/original$path" ] || [ -e "$KEPT/absent$path" ]; then return; fi
  if [ -e "$path" ] || [ -L "$path" ]; then
    mkdir -p "$KEPT/original${path%/*}"
    remove "$KEPT" "$KEPT/original$path.new"; cp -a "$path" "$KEPT/original$path.new"
    mv -f "$KEPT/original$path.new" "$KEPT/original$path"; fresh=yes
  else mkdir -p "$KEPT/absent${path%/*}"; : > "$KEPT/absent$path"; fi
}
all() { while [ $# -gt 0 ]; do place "$1" "$2" "$3" "$4"; shift 4; done; }

fresh='' pass=first; all "$@"
[ -z "$fresh" ] || settle "$KEPT"
pass=second; all "$@"
