# Takes a snapshot of etcd, and prints its digest. SNAPSHOT: where.
umask 077
mkdir -p "${SNAPSHOT%/*}"
rm -f "$SNAPSHOT"
ask snapshot save "$SNAPSHOT" >/dev/null 2>&1 || exit 1
sha256sum "$SNAPSHOT"
