# Files and folders. KEPT: where what was there before is kept. WHITELIST: the folders that a bundle's files are in.
# shellcheck disable=SC2154

# restore_file PATH: what was there before comes back; what was not there before goes. With neither note the file is
# not ours: it was like ours before, or was never written.
restore_file() (
  original=$KEPT/original$1 absent=$KEPT/absent$1
  if [ -L "$original" ] || [ -e "$original" ]; then
    # Folders have files that were kept below them. None was ever kept itself.
    if [ ! -L "$original" ] && [ -d "$original" ]; then refuse "\`$1\` was a folder"; fi
    mkdir -p "${1%/*}"
    reach "$1"
    # Nobody else can put anything in its place.
    work=$(mktemp -d ./.eggo-XXXXXX)
    trap 'rm -rf "$work"' EXIT
    cp -a "$original" "$work/file"
    mv -fT "$work/file" "./$name"
    rm -f "$original"
  elif [ -f "$absent" ]; then
    if reach "$1"; then rm -f "./$name"; fi
    rm -f "$absent"
  fi
)

# restore_item PATH: the same for a file of a bundle, which must still be in the whitelist, wherever links lead.
restore_item() {
  found=$(readlink -m -- "${1%/*}")
  for allowed in $WHITELIST; do
    case $found/ in "$allowed"/*) restore_file "$1"; return ;; esac
  done
  refuse "\`$1\` leads out of the whitelist"
}

# remove_empty PATH: a folder that others may use goes if it is empty.
remove_empty() (
  reach "$1" || exit 0
  if [ ! -L "./$name" ] && [ -d "./$name" ]; then rmdir "./$name" 2>/dev/null || :; fi
)
