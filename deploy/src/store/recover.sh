# Puts together what a cut left in pieces, and lists the store. STORE: what is whole, INCOMING: what is on its way.
# SUSPECT: not empty if what is whole is hashed again; what is damaged goes.
umask 077; mkdir -p "$STORE" "$INCOMING"; cd "$INCOMING" || exit
for rest in *.rest; do
  [ -e "$rest" ] || continue
  cat "$rest" >> "${rest%.rest}"; rm -f "$rest"
done
rm -f list.*
if [ -n "$SUSPECT" ]; then
  cd "$STORE" || exit
  # shellcheck disable=SC2046 # The names are digests.
  damaged $(ls) | while read -r _ name; do rm -rf "./$name"; done
fi
ls -ln "$STORE"; echo @@; ls -ln "$INCOMING"
