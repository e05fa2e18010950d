# Stops services (the arguments) one by one, for systemd stops none of several if one of them is not there.
for unit; do systemctl disable --now "$unit" 2>/dev/null || :; done
