# others_wait SIGNER NAME…: succeeds when certificate requests to the signer wait for an answer, besides these.
others_wait() {
  signer=$1; shift
  kubectl get csr --no-headers 2>/dev/null | grep -wF "$signer" | grep -w Pending | besides "$@" | grep -q .
}
besides() {
  if [ $# -eq 0 ]; then cat; else grep -vwF "$(printf '%s\n' "$@")"; fi
}

# wait_for_others LIMIT SIGNER NAME…: waits for such requests. Running out of time is no error.
wait_for_others() {
  limit=$1; shift
  (repeat "$limit" others_wait "$@") >/dev/null 2>&1 || :
}
