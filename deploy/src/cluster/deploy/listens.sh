# Succeeds when something listens on a TCP port. SOCKET: the end of an address and the port, as the kernel prints them.
grep -qi "$SOCKET 0*:0000 0A " /proc/net/tcp /proc/net/tcp6
