# Moves the pods of a node elsewhere, if the cluster has the node. NODE: its name. LIMIT: in seconds. Arguments: more options.
found=$(kubectl get node "$NODE" --ignore-not-found -o name)
[ -n "$found" ] || exit 0
kubectl drain "$NODE" --ignore-daemonsets --delete-emptydir-data --force --timeout="${LIMIT}s" "$@" 2>&1
