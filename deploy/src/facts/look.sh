# Everything the installer wants to know about a node, in one round trip. As few programs as possible,
# because each costs a second on an emulated machine. Sections begin with "@@ NAME"; one whose program is missing is
# empty. Changes nothing. Arguments: folders for CNI programs.
# SKIP: sections that nobody asks for this time. VERSIONS: programs whose version is asked, of PROGRAMS. MODULES, TOOLS: names.
# SERVICES: those of a cluster. UNITS: services that packages may bring. SHARED: files of settings that we write as
# well, of which KEPT has what was there before. SETTINGS: patterns of files of settings that are the user's alone.
# STORE, INCOMING, MARK, CLUSTER: our own. ETCD_DATA, KUBELET_CLIENT: what etcd and the kubelet have once they have run.
# LEFTOVERS: files that any Kubernetes leaves; CNI_CONFIG: a folder of such.
set +e +u
PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin
section() {
  case " $SKIP " in *" $1 "*) return 1 ;; esac
  echo "@@ $1"
}
section clock && date +%s
section uname && { uname -s; uname -n; uname -r; uname -m; }
section os && { cat /etc/os-release 2>/dev/null || cat /usr/lib/os-release 2>/dev/null; }
section init && cat /proc/1/comm 2>/dev/null
section cpus && { nproc 2>/dev/null || grep -c ^processor /proc/cpuinfo; }
section memory && while read -r key value _; do
  case $key in MemTotal: | MemAvailable: | SwapTotal:) echo "$key $value" ;; esac
done < /proc/meminfo
section disks && df -Pk 2>/dev/null
section mounts && grep -E '[ ,](ro|emergency_ro|shutdown)[ ,]' /proc/mounts
section cgroup && {
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo v2; cat /sys/fs/cgroup/cgroup.controllers
  elif [ -d /sys/fs/cgroup/memory ] || [ -d /sys/fs/cgroup/cpu ]; then echo v1
  fi
}
section modules && for name in $MODULES; do
  if [ -d "/sys/module/$name" ]; then echo "$name loaded"
  elif modprobe -n -q "$name" 2>/dev/null; then echo "$name loadable"
  else echo "$name missing"; fi
done
section tools && for name in $TOOLS; do command -v "$name" >/dev/null && echo "$name"; done

version() {
  case " $VERSIONS " in *" $1 "*) ;; *) return ;; esac
  case $1 in
    etcdctl) "$2" version ;;
    coredns) "$2" -version ;;
    nginx) "$2" -v 2>&1 ;;
    *) "$2" --version ;;
  esac
}
section programs && for name in $PROGRAMS; do
  if path=$(command -v "$name"); then
    echo "$name $path $(version "$name" "$path" 2>/dev/null </dev/null | tr '\n' ' ')"
  fi
done

section packages && {
  if command -v dpkg-query >/dev/null && [ -s /var/lib/dpkg/status ]; then
    echo dpkg; dpkg-query -W -f '${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\n' 2>/dev/null
  elif command -v rpm >/dev/null; then
    echo rpm; rpm -qa --qf 'ii \t%{NAME}\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\t%{ARCH}\n' 2>/dev/null
  fi
}
section services && systemctl list-units --type=service --state=running --plain --no-legend --no-pager 2>/dev/null
section enabled && systemctl list-unit-files --type=service --state=enabled --no-legend --no-pager 2>/dev/null
# shellcheck disable=SC2086 # A list.
section states && systemctl is-active $SERVICES 2>/dev/null
# Of connections and routes there may be a hundred thousand: only what listens, and the node's own addresses, count.
section tcp && grep -h ' 0A ' /proc/net/tcp /proc/net/tcp6 2>/dev/null
section udp && grep -h ' 07 ' /proc/net/udp /proc/net/udp6 2>/dev/null
section addresses && awk '/\|-- / { leaf = $0 } /host LOCAL/ && !seen[leaf]++ { print leaf; print }' /proc/net/fib_trie 2>/dev/null
section selinux && cat /sys/fs/selinux/enforce 2>/dev/null
section store && ls -ln "$STORE" 2>/dev/null
section incoming && ls -ln "$INCOMING" 2>/dev/null
section mark && cat "$MARK" 2>/dev/null
section cluster && cat "$CLUSTER" 2>/dev/null
section leftovers && for path in $LEFTOVERS "$CNI_CONFIG"/*; do
  [ -e "$path" ] && echo "$path"
done

section units && for unit in $UNITS; do
  for folder in /usr/lib /lib; do [ -e "$folder/systemd/system/$unit.service" ] && echo "$unit"; done
done
section names && {
  [ -e /run/systemd/resolve/resolv.conf ] && echo resolved
  cat /etc/resolv.conf /run/systemd/resolve/resolv.conf 2>/dev/null | grep -q '^nameserver' && echo servers
}
section stream && for folder in /usr/lib/nginx/modules /usr/lib64/nginx/modules /usr/share/nginx/modules; do
  [ -e "$folder/ngx_stream_module.so" ] && echo "$folder/ngx_stream_module.so"
done
section cni && for folder; do [ -n "$(ls -A "$folder" 2>/dev/null)" ] && echo "$folder"; done

setting() { [ -f "$1" ] && echo "$1 $(base64 -w0 < "$1")"; }
section settings && {
  for file in $SETTINGS; do setting "$file"; done
  for file in $SHARED; do setting "$file"; setting "$KEPT/original$file"; setting "$KEPT/absent$file"; done
}
section etcd-data && [ -d "$ETCD_DATA/member" ] && echo yes
section kubelet && [ -s "$KUBELET_CLIENT" ] && awk '/BEGIN CERT/,/END CERT/' "$KUBELET_CLIENT" | base64 -w0 && echo
section end
