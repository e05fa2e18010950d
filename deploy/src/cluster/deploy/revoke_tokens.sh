# Revokes what earlier versions let kubelets join with: their right to ask, and tokens that an interrupted install left.
kubectl delete clusterrolebinding eggo:kubelet-bootstrap --ignore-not-found >/dev/null
# "kubelets that eggo-install brings to the cluster"
ours=a3ViZWxldHMgdGhhdCBlZ2dvLWluc3RhbGwgYnJpbmdzIHRvIHRoZSBjbHVzdGVy
line='{{range .items}}{{if .data.description}}{{.metadata.name}} {{.data.description}}{{"\n"}}{{end}}{{end}}'
tokens=$(kubectl -n kube-system get secrets --field-selector type=bootstrap.kubernetes.io/token -o "go-template=$line")
for token in $(echo "$tokens" | awk -v ours="$ours" '$2 == ours { print $1 }'); do
  kubectl -n kube-system delete secret "$token" --ignore-not-found >/dev/null
done
