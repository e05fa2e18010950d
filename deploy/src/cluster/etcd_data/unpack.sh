# Takes a snapshot on standard input, and unpacks it beside the member's data.
# SNAPSHOT: where it goes meanwhile. DIGEST: what it is. DATA: the member's data. Arguments: etcd's options.
umask 077
mkdir -p "${SNAPSHOT%/*}"
cat > "$SNAPSHOT"
[ "$(sha256sum < "$SNAPSHOT" | cut -d' ' -f1)" = "$DIGEST" ] ||
  { echo 'the snapshot was damaged on its way' >&2; exit 1; }
rm -rf "${DATA:?}.new"
if command -v etcdutl >/dev/null; then program=etcdutl; else program=etcdctl; fi
ETCDCTL_API=3 $program snapshot restore "$SNAPSHOT" "$@" --data-dir="$DATA.new" >/dev/null
rm -f "$SNAPSHOT"
# It belongs to whom the service runs as: root, with an earlier version of ours.
user=$(systemctl show -p User --value etcd)
if [ -n "$user" ]; then chown -hR "$user:$user" "$DATA.new"; fi
