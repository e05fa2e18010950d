# repeat LIMIT COMMAND…: repeats the command until it succeeds, for so many seconds; what it said last is printed,
# or is the error.
repeat() {
  end=$(( $(date +%s) + $1 )); shift
  until out=$("$@" 2>&1); do
    [ "$(date +%s)" -lt "$end" ] || { echo "$out" >&2; exit 1; }
    sleep 0.5
  done
  echo "$out"
}
