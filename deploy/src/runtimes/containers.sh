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
