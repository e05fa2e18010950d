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

# The kubelet asks containerd which images are pinned, and an image is if any of its names is, in some versions just the
# last one that was written: all of them are. A label of ours tells those that we pinned from the user's.
pin_images() {
  ctr -n k8s.io images ls | wanted="$*" awk '
    BEGIN { count = split(ENVIRON["wanted"], names); for (i = 1; i <= count; i++) wanted[names[i]] }
    NR > 1 { line[NR] = $0; name[NR] = $1; digest[NR] = $3; if ($1 in wanted) kept[$3] }
    END {
      for (i = 2; i <= NR; i++) {
        ours = index(line[i], "io.eggo.pinned=bundle")
        if (digest[i] in kept && !index(line[i], "io.cri-containerd.pinned=pinned")) print "pinned", name[i]
        if (!(digest[i] in kept) && ours) print "released", name[i]
      }
    }' | while read -r verb name; do
    # An empty label is removed.
    case $verb in
      pinned) ctr -n k8s.io images label "$name" io.cri-containerd.pinned=pinned io.eggo.pinned=bundle ;;
      released) ctr -n k8s.io images label "$name" io.cri-containerd.pinned= io.eggo.pinned= ;;
    esac >/dev/null
    echo "$verb $name"
  done
}

# The pods of the cluster, and what is mounted for them; all other containers stay.
remove_pods() {
  for container in $(ctr -n k8s.io containers ls -q 2>/dev/null); do
    ctr -n k8s.io containers rm "$container" >/dev/null 2>&1 || :
    umount -l "/run/containerd/io.containerd.grpc.v1.cri/sandboxes/$container/shm" 2>/dev/null || :
  done
}
