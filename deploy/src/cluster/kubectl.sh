# `kubectl` is the administrator's, for as long as the script runs. Standard input begins with LENGTH bytes, its kubeconfig;
# what follows is the script's own. KUBECTL: the program. FOLDER: in memory, for the kubeconfig and what kubectl remembers of
# the API.
umask 077
mkdir -p "$FOLDER"
KUBECONFIG=$(mktemp "$FOLDER/kubeconfig.XXXXXXXX")
trap 'rm -f "$KUBECONFIG"' EXIT
trap 'exit 129' HUP INT TERM
head -c "$LENGTH" > "$KUBECONFIG"
export KUBECONFIG
kubectl() { "$KUBECTL" --cache-dir="$FOLDER/kubectl" "$@"; }
