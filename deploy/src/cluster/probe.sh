# What a node has once its content is installed, a line for each thing. Arguments: folders for CNI programs.
# PROGRAMS: those whose version counts. UNITS: services that packages may bring. SHARED: files of settings that we write
# as well, of which KEPT has what was there before. SETTINGS: patterns of files of settings that are the user's alone.
# ETCD_DATA, KUBELET, KUBELET_CLIENT: what etcd and the kubelet have once they have run.
PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin

version() {
  case $1 in
    kubectl) ;; # It would ask a server, and its version is never needed.
    etcdctl) "$2" version ;;
    coredns) "$2" -version ;;
    nginx) "$2" -v 2>&1 ;;
    *) "$2" --version ;;
  esac
}
for name in $PROGRAMS; do
  if path=$(command -v "$name"); then
    echo "program $name $path $(version "$name" "$path" 2>/dev/null </dev/null | tr '\n' ' ')"
  fi
done
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo 'cgroup 2'; else echo 'cgroup 1'; fi
for unit in $UNITS; do
  for folder in /usr/lib /lib; do if [ -e "$folder/systemd/system/$unit.service" ]; then echo "unit $unit"; fi; done
done
if [ -e /run/systemd/resolve/resolv.conf ]; then echo resolved; fi
if cat /etc/resolv.conf /run/systemd/resolve/resolv.conf 2>/dev/null | grep -q '^nameserver'; then echo name-servers; fi
for folder in /usr/lib/nginx/modules /usr/lib64/nginx/modules /usr/share/nginx/modules; do
  if [ -e "$folder/ngx_stream_module.so" ]; then echo "stream $folder/ngx_stream_module.so"; fi
done
for folder; do if [ -n "$(ls -A "$folder" 2>/dev/null)" ]; then echo "cni $folder"; fi; done

settings() { if [ -f "$1" ]; then echo "settings $1 $(base64 -w0 < "$1")"; fi; }
for file in $SETTINGS; do settings "$file"; done
for file in $SHARED; do settings "$file"; settings "$KEPT/original$file"; settings "$KEPT/absent$file"; done

if [ -d "$ETCD_DATA/member" ]; then echo etcd-data; fi
if [ -s "$KUBELET" ] && [ -s "$KUBELET_CLIENT" ]; then
  echo "kubelet-certificate $(awk '/BEGIN CERT/,/END CERT/' "$KUBELET_CLIENT" | base64 -w0)"
fi
