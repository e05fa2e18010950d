# What the scripts do with containerd. The kubelet's images and pods are in its namespace `k8s.io`.

works() { ctr version >/dev/null; }

# A line for each image: its name, and the digest of its manifest.
list_images() { ctr -n k8s.io images ls | while read -r name _ digest _; do echo "$name $digest"; done; }

# Takes the archive on standard input.
load_images() { ctr -n k8s.io images import -; }

load_archive() { ctr -n k8s.io images import "$1"; }

# With the last name of an image goes the one that containerd gave it itself.
remove_images() {
  for name; do
    digest=$(ctr -n k8s.io images ls 2>/dev/null | awk -v name="$name" '$1 == name { print $3 }')
    ctr -n k8s.io images rm "$name" >/dev/null 2>&1 || :
    [ -z "$digest" ] || ctr -n k8s.io images ls | awk -v digest="$digest" '
      $3 == digest { if ($1 ~ /^sha256:/) own = own " " $1; else named = 1 }
      END { if (!named) print own }' | xargs -r ctr -n k8s.io images rm >/dev/null 2>&1 || :
  done
}

# The pods of the cluster, and what is mounted for them; all other containers stay.
remove_pods() {
  for container in $(ctr -n k8s.io containers ls -q 2>/dev/null); do
    ctr -n k8s.io containers rm "$container" >/dev/null 2>&1 || :
    umount -l "/run/containerd/io.containerd.grpc.v1.cri/sandboxes/$container/shm" 2>/dev/null || :
  done
}
