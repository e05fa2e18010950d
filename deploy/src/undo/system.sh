# Settings of the node itself. KEPT: where it notes what was set before. HOSTS: the file of names.

set_hostname() { hostnamectl set-hostname "$1" 2>/dev/null || { echo "$1" | replace /etc/hostname 644; hostname "$1"; }; }

# stop_unit NAME: stopped, disabled, and forgotten if it failed.
stop_unit() {
  systemctl disable --now "$1" 2>/dev/null || systemctl stop "$1" 2>/dev/null || :
  systemctl reset-failed "$1" 2>/dev/null || :
}

# restore_settings NOTE: kernel settings as they were.
restore_settings() {
  if [ -f "$KEPT/$1" ]; then sysctl -q -e -p "$KEPT/$1" >/dev/null 2>&1 || :; fi
}

# hosts_without CLUSTER: prints the file of names without the cluster's block.
hosts_without() {
  cluster=$1 awk 'BEGIN { begin = "# begin eggo " ENVIRON["cluster"]; end = "# end eggo " ENVIRON["cluster"] }
    $0 == begin { ours = 1 } !ours { print } $0 == end { ours = 0 }' "$HOSTS"
}

# replace_hosts: what is beside it takes its place; where the file is a mount of its own, it is overwritten.
replace_hosts() {
  chmod 644 "$HOSTS.eggo-new"
  settle "$HOSTS.eggo-new"
  mv -fT "$HOSTS.eggo-new" "$HOSTS" 2>/dev/null || { cat "$HOSTS.eggo-new" > "$HOSTS"; rm -f "$HOSTS.eggo-new"; }
}

# add_hosts CLUSTER: takes the cluster's block on standard input; prints `same` if the file has just this.
add_hosts() {
  touch "$HOSTS"
  rm -f "$HOSTS.eggo-new"
  { hosts_without "$1"; cat; } > "$HOSTS.eggo-new"
  if cmp -s "$HOSTS.eggo-new" "$HOSTS"; then rm -f "$HOSTS.eggo-new"; echo same; return; fi
  replace_hosts
}

remove_hosts() {
  [ -e "$HOSTS" ] || return 0
  rm -f "$HOSTS.eggo-new"
  hosts_without "$1" > "$HOSTS.eggo-new"
  replace_hosts
}
