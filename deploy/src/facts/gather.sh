# Everything the installer wants to know about a node, in one round trip. POSIX sh; as few
# programs as possible, because each costs a second on an emulated machine. Sections begin with
# "@@ NAME"; a section whose program is missing is empty. Changes nothing.
set +e +u
section() { echo "@@ $1"; }
section clock; date +%s
section uname; uname -s; uname -n; uname -r; uname -m
section os; cat /etc/os-release 2>/dev/null || cat /usr/lib/os-release 2>/dev/null
section init; cat /proc/1/comm 2>/dev/null
section cpus; nproc 2>/dev/null || grep -c ^processor /proc/cpuinfo
section memory
while read -r key value _; do
  case $key in MemTotal: | MemAvailable: | SwapTotal:) echo "$key $value" ;; esac
done < /proc/meminfo
section disks; df -Pk 2>/dev/null
section mounts; cat /proc/mounts
section cgroup
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo v2; cat /sys/fs/cgroup/cgroup.controllers
elif [ -d /sys/fs/cgroup/memory ] || [ -d /sys/fs/cgroup/cpu ]; then echo v1
fi
section modules; while read -r name _; do echo "$name"; done < /proc/modules 2>/dev/null
section wanted-modules
for name in $MODULES; do
  if [ -d "/sys/module/$name" ]; then echo "$name loaded"
  elif modprobe -n -q "$name" 2>/dev/null; then echo "$name loadable"
  else echo "$name missing"; fi
done
section tools; for name in $TOOLS; do command -v "$name" >/dev/null && echo "$name"; done
section packages
if command -v dpkg-query >/dev/null && [ -s /var/lib/dpkg/status ]; then
  echo dpkg; dpkg-query -W -f '${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\n' 2>/dev/null
elif command -v rpm >/dev/null; then
  echo rpm; rpm -qa --qf 'ii \t%{NAME}\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\t%{ARCH}\n' 2>/dev/null
fi
section services; systemctl list-units --type=service --state=running --plain --no-legend --no-pager 2>/dev/null
section enabled; systemctl list-unit-files --type=service --state=enabled --no-legend --no-pager 2>/dev/null
section tcp; cat /proc/net/tcp /proc/net/tcp6 2>/dev/null
section udp; cat /proc/net/udp /proc/net/udp6 2>/dev/null
section addresses; cat /proc/net/fib_trie 2>/dev/null
section selinux; cat /sys/fs/selinux/enforce 2>/dev/null
section store; ls -ln /var/lib/eggo/store/sha256 2>/dev/null
section incoming; ls -ln /var/lib/eggo/store/in 2>/dev/null
section mark; cat /var/lib/eggo/mark 2>/dev/null
section cluster; cat /var/lib/eggo/cluster 2>/dev/null
section leftovers
for path in /etc/kubernetes/admin.conf /etc/kubernetes/pki/ca.crt /etc/kubernetes/kubelet.conf \
  /etc/kubernetes/kubelet.kubeconfig /var/lib/etcd/member /var/lib/etcd/default.etcd/member \
  /var/lib/kubelet/config.yaml /etc/cni/net.d/*; do
  [ -e "$path" ] && echo "$path"
done
section end
