# Containers of a runtime, and what they leave behind.

# remove_containers NAME SHIM NAMESPACE PODS FUNCTIONS FOLDER… [-- OTHER FOLDER…]: ends the containers of a runtime
# (NAME), then removes what is in its folders. SHIM: what the process is called that holds one; NAMESPACE: among whose
# arguments ours have this, if any; PODS: the same for the pods, if they are to end before the runtime starts again.
# FUNCTIONS: those of the runtime. OTHER: another runtime that it uses, whose folders go, too.
#
# In a runtime of the user's only the pods end, and nothing else is done. Only the runtime itself can remove them, so
# it starts: with the user's settings, which are back by now.
remove_containers() {
  runtime=$1 shim=$2 namespace=$3 pods=$4 functions=$5
  shift 5
  if is_users "$runtime"; then
    [ -z "$pods" ] || end_containers "$shim" "$pods"
    systemctl daemon-reload
    if systemctl restart "$runtime" 2>/dev/null; then eval "$functions"; remove_pods; fi
    return 0
  fi
  end_containers "$shim" "$namespace"
  while [ $# -gt 0 ]; do
    if [ "$1" != -- ]; then remove_tree "$1"; shift; continue; fi
    if is_users "$2"; then return 0; fi
    shift 2
  done
}

# remove_images FUNCTIONS NAME…: as far as the runtime has them.
remove_images_of() {
  eval "$1"; shift
  remove_images "$@"
}

# release_images_of FUNCTIONS: the kubelet need not keep any of ours.
release_images_of() {
  eval "$1"
  pin_images >/dev/null 2>&1 || :
}

# remove_bridge NAME LINK: a network link of a runtime, unless the runtime was the user's.
remove_bridge() {
  if ! is_users "$1" && command -v ip >/dev/null; then ip link delete "$2" 2>/dev/null || :; fi
}

# remove_links INTO FOLDER…: removes the links in a folder that lead into some others.
remove_links() (
  into=$1; shift
  reach "$into/link" || exit 0
  for link in *; do
    target=$(readlink "./$link") || continue
    # 0.1.0 made links into `/opt/cni//bin` where deploy.yaml was written so.
    target=$(printf %s "$target" | tr -s /)
    for folder; do case $target in "$folder"/*) rm -f "./$link" ;; esac; done
  done
)

# end_containers SHIM NAMESPACE: ends every process that is below a container's shim, and the shim; only of those
# shims that have the namespace among their arguments, unless that is empty.
end_containers() {
  for process in /proc/[0-9]*; do
    read -r command 2>/dev/null < "$process/comm" || continue
    case $command in "${1:?}"*) ;; *) continue ;; esac
    if [ -n "$2" ]; then
      tr '\0' '\n' 2>/dev/null < "$process/cmdline" | grep -qxF -e "$2" || continue
    fi
    for children in "$process"/task/*/children; do
      # One line of numbers.
      # shellcheck disable=SC2013
      for child in $(cat "$children" 2>/dev/null); do kill -9 "$child" 2>/dev/null || :; done
    done
    kill -9 "${process#/proc/}" 2>/dev/null || :
  done
  sleep 0.2
}
