# Sets what the kubelet insists on, and notes what was set before, once. Arguments: the settings to note.
# NOTED: where. SETTINGS: the file with ours.
old() { sysctl -e "$@" 2>/dev/null || :; }
note "$NOTED" old "$@"
sysctl -q -p "$SETTINGS" >/dev/null
