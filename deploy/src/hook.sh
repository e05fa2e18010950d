# Runs a script of the user's (standard input) as a file of its own, so that its first line decides what it is written in. It
# and what it started are ended after LIMIT seconds. ROOT: the installer's folder, for /run may forbid execution; after a
# cleanup it goes again.
umask 077
mkdir -p "$ROOT"
folder=$(mktemp -d "$ROOT/hook.XXXXXX")
trap 'remove "$ROOT" "$folder"; rmdir "$ROOT" 2>/dev/null || :' EXIT
cat > "$folder/hook"
chmod 0700 "$folder/hook"
head -c 2 "$folder/hook" | grep -q '#!' || sed -i '1i #!/bin/sh' "$folder/hook"
umask 022
cd /
export EGGO_CLUSTER_ID EGGO_CLUSTER_API_ENDPOINT EGGO_CLUSTER_CONFIG_DIR EGGO_NODE_IP EGGO_NODE_NAME EGGO_NODE_ARCH \
  EGGO_NODE_ROLE EGGO_HOOK_TYPE EGGO_OPERATOR
timeout -k 5 "$LIMIT" "$folder/hook" 2>&1 </dev/null || {
  status=$?
  [ $status -ne 124 ] || echo "it took longer than $LIMIT s" >&2
  exit $status
}
