# Starts etcd if it does not run, without waiting for it; prints `started` then.
systemctl -q is-active etcd || ! systemctl start --no-block etcd 2>/dev/null || echo started
