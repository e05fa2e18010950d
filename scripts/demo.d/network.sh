#!/bin/sh
set -e
if [ "$EGGO_HOOK_TYPE" = postcleanup ]; then
  rm -f /etc/cni/net.d/10-bridge.conflist
  exit 0
fi
o=${EGGO_NODE_IP##*.}
mkdir -p /etc/cni/net.d
cat > /etc/cni/net.d/10-bridge.conflist <<U
{"cniVersion":"0.4.0","name":"bridge","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":true,"hairpinMode":true,"ipam":{"type":"host-local","ranges":[[{"subnet":"10.244.$o.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
U
echo "network for $EGGO_NODE_NAME ($EGGO_NODE_ROLE, $EGGO_OPERATOR)"
