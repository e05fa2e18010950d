# Networks of containers. Those that a node had before the cluster came are the user's, and stay so. KEPT: where the
# node notes them: `link NAME`, `netns NAME`, `data` if CNI plugins have some, `chains` if they have rules. NODE: the
# root of the node's files, empty but in tests. NAMED_LINKS: those that the cluster's network makes under these names.

# note_networks: makes that note, once.
note_networks() { note "$KEPT/users-networks" find_networks; }

find_networks() {
  sed -n 's/^ *\([^ :]*\):.*/link \1/p' "$NODE/proc/net/dev" | sort
  for space in "$NODE"/run/netns/*; do [ ! -e "$space" ] || echo "netns ${space##*/}"; done
  if [ -n "$(ls -A "$NODE/var/lib/cni" 2>/dev/null)" ]; then echo data; fi
  for tables in iptables ip6tables; do
    if command -v "$tables-save" >/dev/null; then "$tables-save" 2>/dev/null || :; fi
  done | awk '/^:CNI-/ { found = 1 } END { if (found) print "chains" }'
}

# was_there LINE: whether the note has it.
was_there() { grep -qsxF -e "$1" "$KEPT/users-networks"; }

# remove_networks: removes what CNI plugins noted, the links and the name spaces of pods. The bridges come last:
# without them nothing hangs on any.
remove_networks() {
  was_there data || remove_tree "$NODE/var/lib/cni"
  command -v ip >/dev/null || return 0
  links=$(links_of_pods)
  for link in $(echo "$links" | sed -n 's/^pods //p'); do ip link delete "$link" 2>/dev/null || :; done
  for space in $(ip netns list 2>/dev/null | awk '/^cni-/ { print $1 }'); do
    was_there "netns $space" || echo "$links" | grep -qxF -e "users $space" || ip netns delete "$space" 2>/dev/null || :
  done
  for link in $NAMED_LINKS; do was_there "link $link" || ip link delete "$link" 2>/dev/null || :; done
}

# A pod's link leads into a name space that a CNI runtime made, or hangs on our bridge; on a bridge of the user's, or
# podman's, it is none of a pod. Links of which neither can be told go with their pods.
links_of_pods() {
  noted=$KEPT/users-networks
  [ -e "$noted" ] || noted=/dev/null
  ip -o link 2>/dev/null | awk -v noted="$noted" '
    FILENAME == noted { before[$0]; next }
    {
      link = $2; sub(/[@:].*/, "", link); master = netns = ""
      for (i = 3; i < NF; i++) { if ($i == "master") master = $(i + 1); if ($i == "link-netns") netns = $(i + 1) }
      if (("link " link) in before) next
      foreign = master != "" && (("link " master) in before || master ~ /^cni-podman/)
      if (foreign && netns != "") print "users", netns
      if (foreign) next
      if (link ~ /^cali/ || link ~ /^veth/ && (netns ~ /^cni-/ || master ~ /^(cni0|kube-bridge)$/)) print "pods", link
    }' "$noted" - || :
}

# remove_rules PROGRAM: kube-proxy knows its own chains; those of the kubelet and of CNI plugins go by name. Nothing
# tells a pod's chain of a plugin from another container's: if there were any before, all of them stay.
remove_rules() {
  if [ -O "$1" ] && [ -x "$1" ]; then "$1" --cleanup >/dev/null 2>&1 || :; fi
  cni='CNI-|'
  if was_there chains; then cni=; fi
  for tables in iptables ip6tables; do
    command -v "$tables-save" >/dev/null || continue
    # Only a complete list, and only if it has something of ours: the others' rules are put back with it.
    before=$("$tables-save" 2>/dev/null) || continue
    after=$(printf '%s\n' "$before" | awk -v ours="(KUBE-|${cni}cali-|FLANNEL-)" '/^\*/ || /^COMMIT/ { print; next }
      /^:/ { if ($1 !~ "^:" ours) print; next }
      $0 !~ ours && !/cali:/ { print }')
    [ "$before" = "$after" ] || printf '%s\n' "$after" | "$tables-restore" 2>/dev/null || :
  done
}

# remove_service_route NETWORK: by which the node itself reached services. ROUTE_MARK tells it from a route of the user's.
remove_service_route() {
  if command -v ip >/dev/null; then ip route del "$1" dev lo proto "$ROUTE_MARK" 2>/dev/null || :; fi
}

# forget_pods KUBECONFIG FOLDER…: what a kubelet leaves behind: its own key, mounts of pods, their data, the links of
# their network.
forget_pods() {
  rm -f "$1"; shift
  remove_trees "$@"
  remove_networks
}
