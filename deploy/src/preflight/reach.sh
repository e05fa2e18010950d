# Which of the other nodes are not reached. Arguments: ADDRESS PORT NAME, again and again. All at the same time, each for at
# most five seconds.
if command -v bash >/dev/null; then
  # shellcheck disable=SC2016 # The inner shell's own arguments.
  try() { timeout 5 bash -c 'exec 3<>"/dev/tcp/$1/$2"' bash "$1" "$2" 2>/dev/null; }
elif command -v nc >/dev/null; then
  try() { timeout 5 nc -z "$1" "$2" 2>/dev/null; }
elif command -v python3 >/dev/null; then
  try() {
    timeout 5 python3 -c 'import socket, sys; socket.create_connection((sys.argv[1], sys.argv[2]), 5)' "$1" "$2" 2>/dev/null
  }
else
  echo 'no tool'
  exit 0
fi
while [ $# -ge 3 ]; do
  { try "$1" "$2" || echo "no \`$3\` at $1 port $2"; } &
  shift 3
done
wait
