# settle PATH: what was written to the file system of PATH is on its disk. A rename can get there before the
# content that it names: after a power cut an empty file would go for the user's.
settle() { sync -f "$1" 2>/dev/null || sync; }

# note FILE COMMAND…: what the command says, once: written beside, settled, renamed.
note() {
  note=$1; shift
  [ ! -e "$note" ] || return 0
  mkdir -p "${note%/*}"
  "$@" > "$note.new"
  settle "$note.new"
  mv -f "$note.new" "$note"
}

# remove FOLDER PATH…: removes what is below the folder, and nothing else.
remove() {
  below=$1; shift
  for gone; do
    case $gone/ in "${below:?}"/[!/]*) ;; *) echo "$gone is not below $below" >&2; return 1 ;; esac
    case $gone/ in */../*) echo "$gone leads out of $below" >&2; return 1 ;; esac
    rm -rf "$gone"
  done
}
