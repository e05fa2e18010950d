# reports NODE VERSION: succeeds when the node's kubelet is of this version, as the API says.
reports() {
  [ "$(kubectl get node "$1" -o jsonpath='{.status.nodeInfo.kubeletVersion}' | sed 's/^v//; s/[-+].*//')" = "$2" ]
}
