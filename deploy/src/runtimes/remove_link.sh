# Removes a network link (LINK) of a runtime (NAME), unless the runtime was the user's.
if ! is_users "$NAME" && command -v ip >/dev/null; then ip link delete "$LINK" 2>/dev/null || :; fi
