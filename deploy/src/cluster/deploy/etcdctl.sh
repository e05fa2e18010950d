# ask ARGUMENTS…: etcdctl as the health checker, with the member's own certificate.
# ENDPOINTS: the members to ask. TIMEOUT: as etcdctl reads it. PKI: where the certificates are.
ask() {
  ETCDCTL_API=3 etcdctl --endpoints="$ENDPOINTS" --command-timeout="$TIMEOUT" --cacert="$PKI/ca.crt" \
    --cert="$PKI/healthcheck-client.crt" --key="$PKI/healthcheck-client.key" "$@"
}
