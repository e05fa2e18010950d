# Ends the processes of commands that nobody waits for any more. Their marks come on standard input, one a line; each is in
# the environment of every process of its command. They get five seconds to tidy up.
# shellcheck disable=SC2086 # numbers of processes are words
marks=$(cat)
[ -n "$marks" ] || exit 0
turn=0
while :; do
  found=$(grep -lzxF -e "$marks" /proc/[0-9]*/environ 2>/dev/null | sed 's|^/proc/||; s|/environ$||' || :)
  [ -n "$found" ] || exit 0
  case $turn in
    0) kill -s TERM $found 2>/dev/null || : ;;
    [1-9] | 1[0-9] | 2[0-4]) ;;
    4?) exit 1 ;;
    *) kill -s KILL $found 2>/dev/null || : ;;
  esac
  turn=$((turn + 1))
  sleep 0.2 2>/dev/null || sleep 1
done
