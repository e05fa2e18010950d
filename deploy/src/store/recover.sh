# Puts together what a cut left in pieces, and lists the store. STORE: what is whole, INCOMING: what is on its way.
umask 077; mkdir -p "$STORE" "$INCOMING"; cd "$INCOMING" || exit
for rest in *.rest; do
  [ -e "$rest" ] || continue
  cat "$rest" >> "${rest%.rest}"; rm -f "$rest"
done
rm -f list.*
ls -ln "$STORE"; echo @@; ls -ln "$INCOMING"
