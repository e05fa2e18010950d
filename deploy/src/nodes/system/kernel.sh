# Loads kernel modules (the arguments), and sets what a file (SETTINGS) has; what its settings (KEYS) were before is
# noted once, in the file NOTE below KEPT.
old() {
  # shellcheck disable=SC2086
  sysctl -e $KEYS 2>/dev/null || :
}
for module; do
  modprobe -q "$module" || [ -d "/sys/module/$module" ] || echo "no module $module" >&2
done
note "$KEPT/$NOTE" old
sysctl -q -e -p "$SETTINGS"
