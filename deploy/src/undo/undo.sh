# Every undo in a shell of its own: one that fails does not stop the others.
set +e
failed=''
undo() {
  # Left of `||` the shell would go on after a failure, whatever `set -e` says.
  (set -e; "$@") >&2
  # shellcheck disable=SC2181
  [ $? = 0 ] || failed=yes
}
# entry NUMBER: says of the undos since the last one whether any failed.
entry() {
  [ -z "$failed" ] || echo "@failed $1"
  failed=''
}
