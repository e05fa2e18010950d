# Ports in the node's firewall. Only ports that were closed are opened, and only those are closed again. KEPT: the file
# `ports` there names what was opened, one `PORT/PROTOCOL` a line; with `later` behind it, if it was open until a reboot
# before. NFT_FILE, NFT_DROP_IN: rules for nftables, and what loads them again with the user's.

# opened: the ports of that file, as far as each is one.
opened() { if [ -f "$KEPT/ports" ]; then grep -xE '[0-9]+/[a-z]+( later)?' "$KEPT/ports" || :; fi; }

# among PORT/PROTOCOL LIST: whether firewalld's list has the port, be it in a range: to close one port of the user's
# range would break it apart.
among() {
  for known in $2; do
    range=${known%/*}
    if [ "${1#*/}" = "${known#*/}" ] && [ "${1%/*}" -ge "${range%-*}" ] && [ "${1%/*}" -le "${range#*-}" ]; then return 0; fi
  done
  return 1
}

# Its program takes half a second for anything: one call for all.
open_firewalld() {
  open=$(firewall-cmd --permanent --list-ports) runs=$(firewall-cmd --list-ports)
  now='' add=''
  for port; do
    later=' later'
    among "$port" "$runs" || { later=''; now="$now --add-port=$port"; }
    among "$port" "$open" || { add="$add --add-port=$port"; echo "$port$later" >> "$KEPT/ports"; }
  done
  # shellcheck disable=SC2086
  [ -z "$add" ] || firewall-cmd -q --permanent $add
  # shellcheck disable=SC2086
  [ -z "$now" ] || firewall-cmd -q $now
}
close_firewalld() {
  # shellcheck disable=SC2046
  set -- $(opened | awk '{ print "--remove-port=" $1 }')
  [ $# = 0 ] || firewall-cmd -q --permanent "$@" || :
  # shellcheck disable=SC2046
  set -- $(opened | awk 'NF == 1 { print "--remove-port=" $1 }')
  [ $# = 0 ] || firewall-cmd -q "$@" || :
}

open_ufw() {
  for port; do
    ufw status | grep -q "^$port " || { ufw allow "$port" comment eggo >/dev/null; echo "$port" >> "$KEPT/ports"; }
  done
}
close_ufw() { opened | while read -r port _; do ufw delete allow "$port" >/dev/null || :; done; }

open_nftables() {
  # No such chain: nothing is filtered there.
  nft list chain inet filter input >/dev/null 2>&1 || return 0
  : > "$NFT_FILE.new"
  for port; do
    set -- inet filter input "${port#*/}" dport "${port%/*}" accept comment '"eggo"'
    grep -qsx "$port" "$KEPT/ports" || { nft insert rule "$@"; echo "$port" >> "$KEPT/ports"; }
    echo "insert rule $*" >> "$NFT_FILE.new"
  done
  settle "$NFT_FILE.new"
  mv -f "$NFT_FILE.new" "$NFT_FILE"
  mkdir -p "${NFT_DROP_IN%/*}"
  printf '[Service]\nExecStartPost=/usr/sbin/nft -f %s\nExecReload=/usr/sbin/nft -f %s\n' "$NFT_FILE" "$NFT_FILE" |
    replace "$NFT_DROP_IN" 644
  systemctl daemon-reload
}
close_nftables() {
  nft -a list chain inet filter input 2>/dev/null | sed -n 's/.*comment "eggo".*# handle \([0-9]*\)$/\1/p' |
    while read -r handle; do nft delete rule inet filter input handle "$handle"; done
  rm -f "$NFT_FILE" "$NFT_FILE.new" "$NFT_DROP_IN" "$NFT_DROP_IN.eggo-new"
  rmdir "${NFT_DROP_IN%/*}" 2>/dev/null || :
  systemctl daemon-reload
}

# open_ports FIREWALL PORT…
open_ports() {
  firewall=$1; shift
  mkdir -p "$KEPT"
  "open_$firewall" "$@"
}
close_ports() { "close_$1"; rm -f "$KEPT/ports"; }
