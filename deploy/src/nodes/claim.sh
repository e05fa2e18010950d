# Claims the node for one state folder, then notes what it has before the cluster. Of all who claim it at once one wins: a
# claim is complete and on its disk before it gets its name, and a link is made only where nothing has that name. Who
# loses has changed nothing. Prints the claim of another that stays.
# ROOT: the installer's folder. MARK, CLUSTER, HOLDER, SINCE: the claim. REPLACES: the mark of the claim whose place it
# takes, if any. Arguments: container runtimes, each with its folder.
umask 077
mkdir -p "$ROOT"
holds() { held=''; [ ! -e "$ROOT/mark" ] || read -r held < "$ROOT/mark" || :; [ "$held" = "$1" ]; }
if [ "$MARK" = "$REPLACES" ] || ! holds "$MARK"; then
  claim=$(mktemp "$ROOT/mark.XXXXXX")
  printf '%s\ncluster %s\nholder %s\nsince %s\n' "$MARK" "$CLUSTER" "$HOLDER" "$SINCE" > "$claim"
  settle "$claim"
  if [ -n "$REPLACES" ]; then
    # Of all who take the same claim over, one does.
    exec 9< "$ROOT"; flock 9
    if holds "$REPLACES"; then mv -f "$claim" "$ROOT/mark"; fi
    exec 9<&-
  else
    ln "$claim" "$ROOT/mark" 2>/dev/null || [ -e "$ROOT/mark" ] || ln "$claim" "$ROOT/mark"
  fi
  rm -f "$claim"
fi
if ! holds "$MARK"; then cat "$ROOT/mark"; exit 0; fi
note_mounts
note_users "$@"
note_networks
