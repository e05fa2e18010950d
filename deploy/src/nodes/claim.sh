# Gives the node its mark, after what it has before the cluster is noted. ROOT: the installer's folder. MARK, CLUSTER:
# what it is marked with. Arguments: container runtimes, each with its folder.
umask 077
mkdir -p "$ROOT"
note_mounts
note_users "$@"
note_networks
cd "$ROOT" || exit
echo "$MARK" > mark.new; mv mark.new mark
echo "$CLUSTER" > cluster.new; mv cluster.new cluster
