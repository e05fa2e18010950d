# Folders that the cluster's programs fill, on disks that may be the user's own. KEPT: where a node notes what it had.
# shellcheck disable=SC2154

# note_mounts: notes what is mounted before the cluster comes, once.
note_mounts() { note "$KEPT/mounts" cut -d ' ' -f 2 /proc/mounts; }

# remove_tree PATH: removes a folder with everything that was mounted in it since that note. What was mounted there
# before stays so: a disk on the folder itself is emptied, of what is mounted below it nothing is touched. `-xdev`
# alone would not do, for a bind mount may be of the same file system.
remove_tree() (
  reach "$1" || exit 0
  case $real in *[[:space:]\\*?[]*) refuse "\`$1\` is in \`$real\`, which no pattern can name" ;; esac
  noted=$KEPT/mounts
  [ -e "$noted" ] || noted=/dev/null
  awk -v real="$real/" -v noted="$noted" 'FILENAME == noted { before[$1]; next }
    index($2 "/", real) == 1 && !($2 in before) { print $2 }' "$noted" /proc/mounts | sort -r |
    while read -r mount; do umount -l "$(printf %b "$mount")" 2>/dev/null || :; done
  # /proc/mounts writes blanks and the like as `\040`: for a pattern, as whatever has a meaning in one, that is any
  # character. So a pattern is one word, and keeps rather too much than too little.
  keep=$(awk -v real="$real/" -v name="./$name" 'index($2 "/", real) == 1 {
    below = substr($2, length(real)); gsub(/\\[0-7][0-7][0-7]|[][*?]/, "?", below)
    print "! -path " name below; if (below != "") print "! -path " name below "/*" }' /proc/mounts)
  if [ -z "$keep" ]; then rm -rf --one-file-system "./$name"; exit; fi
  set -f
  # shellcheck disable=SC2086
  find "./$name" -xdev -depth -mindepth 1 ! -name lost+found $keep '(' ! -type d -o -empty ')' -delete 2>/dev/null || :
)

remove_trees() { for tree; do remove_tree "$tree"; done; }
