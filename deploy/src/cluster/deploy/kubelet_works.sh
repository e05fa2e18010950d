# Succeeds once the kubelet has its certificate (CERTIFICATE), and answers where it reports its health or has run for
# some seconds.
[ -s "$CERTIFICATE" ]
grep -q ':2808 ' /proc/net/tcp ||
  [ $(( $(cut -d. -f1 /proc/uptime) - $(systemctl show -p ExecMainStartTimestampMonotonic --value kubelet) / 1000000 )) -ge 5 ]
