# Copies a member's data as it is on its disk, and prints its digest: for a member that does not answer. It is stopped
# meanwhile, so that all of it is on the disk. SNAPSHOT: where the copy goes. DATA: the member's data.
[ -s "$DATA/member/snap/db" ] || { echo "there is no data of etcd in $DATA" >&2; exit 1; }
umask 077
mkdir -p "${SNAPSHOT%/*}"
trap 'systemctl start --no-block etcd' EXIT
systemctl stop etcd
cp "$DATA/member/snap/db" "$SNAPSHOT"
sha256sum "$SNAPSHOT"
