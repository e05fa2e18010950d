# settle PATH: what was written to the file system of PATH is on its disk. A rename can get there before the
# content that it names: after a power cut an empty file would go for the user's.
settle() { sync -f "$1" 2>/dev/null || sync; }

# replace FILE MODE: takes its content on standard input. FILE is what it was or all of this, and never anything in
# between: written beside, settled, renamed.
replace() {
  rm -f "$1.eggo-new"
  cat > "$1.eggo-new" && chmod "$2" "$1.eggo-new" && settle "$1.eggo-new" && mv -fT "$1.eggo-new" "$1"
}

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
