# Sets what was set before. NOTED: where it was noted.
[ ! -e "$NOTED" ] || sysctl -q -e -p "$NOTED" >/dev/null 2>&1 || :
