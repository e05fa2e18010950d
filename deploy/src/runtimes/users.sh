# Container runtimes that a node had before the cluster came: they are the user's, and stay so.
# NOTED: where the node notes them: a line for each, and one for each of their units that was enabled or active.

# note_users [NAME DATA]…: makes that note, once. It must come before any package of ours, for these bring runtimes too.
note_users() { note "$NOTED" find_users "$@"; }

# Stopped runtimes count as well: their data is the user's all the same.
find_users() {
  while [ $# -gt 0 ]; do
    name=$1 data=$2 found=''
    shift 2
    for unit in "$name.socket" "$name.service"; do
      case $(systemctl is-enabled "$unit" 2>/dev/null) in enabled*) found=yes; echo "enabled $unit" ;; esac
      if systemctl -q is-active "$unit"; then found=yes; echo "active $unit"; fi
    done
    # shellcheck disable=SC2010
    if ls -A "$data" 2>/dev/null | grep -qvx lost+found; then found=yes; fi
    [ -z "$found" ] || echo "$name"
  done
}

# is_users NAME: whether the runtime was the user's.
is_users() { grep -qsx "$1" "$NOTED"; }

# as_before NAME: a runtime of the user's is enabled and runs if it was and did before, and else does not. The socket
# comes first: systemd refuses to listen for a service that runs.
as_before() {
  is_users "$1" || return 0
  for unit in "$1.socket" "$1.service"; do
    if grep -qsx "enabled $unit" "$NOTED"; then systemctl -q enable "$unit"; fi
    if grep -qsx "active $unit" "$NOTED"; then systemctl start "$unit"
    elif systemctl -q is-active "$unit"; then systemctl stop "$unit"; fi
  done
}
