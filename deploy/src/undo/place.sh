# Where something is that will be removed or replaced.

refuse() { echo "refused: $1" >&2; exit 1; }

# reach PATH: goes to the folder that has PATH, if there is one. Then `name` is its name there, and `real` where it
# really is. To be used in a subshell. Nobody but root may lead a path elsewhere by a link, and what was checked
# stays so: the shell is in that folder then, wherever its name leads later.
reach() {
  case $1/ in
    *//* | */./* | */../*) refuse "\`$1\` is not a plain path" ;;
    /*/*/) ;;
    *) refuse "\`$1\` is not below a folder" ;;
  esac
  place=${1%/*}
  [ -d "$place" ] || return 1
  cd -P -- "$place" || exit 1
  at=$place
  while [ -n "$at" ]; do
    if [ -L "$at" ] && [ "$(stat -c %u -- "$at")" != "$(id -u)" ]; then
      refuse "\`$1\`: another user made the link \`$at\`"
    fi
    at=${at%/*}
  done
  [ "$(stat -Lc %d:%i .)" = "$(stat -Lc %d:%i -- "$place")" ] || refuse "\`$1\` has just been moved"
  name=${1##*/} real=$(pwd -P)
  [ "$real" != / ] || refuse "\`$1\` leads to the root of all files"
  real=$real/$name
}
