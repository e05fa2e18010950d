# Waits until nodes (the arguments) are Ready, for LIMIT seconds at most, and prints all nodes as they are then. `kubectl wait`
# gets every change as it happens; it does not ask again and again.
kubectl wait --for=condition=Ready --timeout="${LIMIT}s" node "$@" >/dev/null 2>&1 || :
kubectl get nodes -o json
