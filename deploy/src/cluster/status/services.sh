# Prints for each service (the arguments) its name and state.
for unit; do echo "$unit $(systemctl is-active "$unit")"; done
