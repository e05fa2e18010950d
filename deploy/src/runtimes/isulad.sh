# What the scripts do with iSulad.

works() { isula version >/dev/null; }

# A line for each image: its name. Of old it prints names with their tags in one column, `REF`.
list_images() {
  isula images | {
    read -r head _
    while read -r name tag _; do if [ "$head" = REF ]; then echo "$name"; else echo "$name:$tag"; fi; done
  }
}

# Takes the archive on standard input, and keeps it in the folder that it runs in.
load_images() { cat > images.tar && isula load -i images.tar; }

load_archive() { isula load -i "$1"; }

remove_images() { isula rmi "$@" >/dev/null 2>&1 || :; }

pin_images() { :; }

# The pods of the cluster; all other containers stay.
remove_pods() {
  isula ps -aq --filter label=io.kubernetes.pod.uid 2>/dev/null | xargs -r isula rm -f >/dev/null 2>&1 || :
}
