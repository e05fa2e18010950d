# Brings a service to its present form, and running; prints `started` if it had to.
# NAME: the service. FINGERPRINT: of its files and its program. STAMP: where the node notes the one that it was
# last started with. RELOADS: `yes` if it reads its files again without a restart. BEFORE: a script that runs before
# the start. WORKS: a script that succeeds once the service works, repeated for LIMIT seconds; either may be empty.
# ENDS: a service that ended by itself so often will not work by waiting.

# What a service says when it fails is the reason that people look for.
last() {
  journalctl -u "$NAME" -n 8 --no-pager -o cat >&2 2>/dev/null
  exit 1
}
start() {
  if [ "$RELOADS" = yes ] && [ "$stale" = no ] && systemctl -q is-active "$NAME"; then systemctl reload "$NAME"
  else systemctl restart "$NAME"; fi
}

# A changed unit or program takes a restart, and so does a service that is not running. The stamp knows versions;
# another build of the same one shows in a process whose program was replaced. A path that does not exist is no
# program of this node, but the emulator of another arch.
stale=$(systemctl show -p NeedDaemonReload --value "$NAME")
program=$(readlink "/proc/$(systemctl show -p MainPID --value "$NAME")/exe" 2>/dev/null || :)
case $program in *' (deleted)') if [ -e "${program% (deleted)}" ]; then stale=yes; fi ;; esac
if [ "$stale" = no ] && [ "$(cat "$STAMP" 2>/dev/null)" = "$FINGERPRINT" ] &&
  systemctl -q is-active "$NAME" && systemctl -q is-enabled "$NAME"; then exit 0; fi

[ -z "$BEFORE" ] || sh -euc "$BEFORE"
systemctl daemon-reload
systemctl -q unmask "$NAME" 2>/dev/null || :
systemctl -q enable "$NAME"
systemctl reset-failed "$NAME" 2>/dev/null || :
rm -f "$STAMP"
start || last

end=$(( $(date +%s) + LIMIT ))
until [ -z "$WORKS" ] || out=$(sh -euc "$WORKS" 2>&1); do
  [ "$(date +%s)" -lt "$end" ] || { echo "$out" >&2; last; }
  [ "$(systemctl show -p NRestarts --value "$NAME")" -lt "$ENDS" ] ||
    { echo "$NAME ends again and again" >&2; last; }
  sleep 0.2
done
mkdir -p "${STAMP%/*}"
echo "$FINGERPRINT" > "$STAMP"
echo started
