# The receiving end of a batch. Standard input: a tar of items, and last a list of them (list.NUMBER), which ends with END.
# Prints `good DIGEST` for each item that is now in the STORE, and `verified` at last. INCOMING: where items arrive.
# GNU tar takes what a pipe holds at once instead of 10 KiB, which is half of its work (other tars do not look at its
# variable); of a write that fell short it does not say why, but the next one does. What gets its name is on the disk: else
# an empty file could have it after a power cut.
# shellcheck disable=SC2086 # Digests are words.
umask 077
mkdir -p "$STORE" "$INCOMING"
cd "$INCOMING" || exit 1
failed=
TAR_OPTIONS=-b128 tar -x -f - || {
  failed=1
  head -c 65536 /dev/zero > "full.$NUMBER" || :
  rm -f "full.$NUMBER"
}
[ "$(tail -n 1 "list.$NUMBER" 2>/dev/null)" = "$END" ] || exit 1
names=$(while read -r name; do
  case $name in
    "$END") break ;;
    +*) name=${name#+}; cat "$name.rest" >> "$name"; rm -f "$name.rest" ;;
  esac
  echo "$name"
done < "list.$NUMBER")
good=$(sums $names 2>/dev/null | while read -r digest name; do
  [ "*$digest" != "$name" ] || echo "$digest"
done)
bad=$(for name in $names; do case "$good" in *$name*) ;; *) echo "$name" ;; esac; done)
if [ -n "$good" ]; then
  sync $good || exit 1
  mv -f $good "$STORE/"
  sync "$STORE" || exit 1
fi
rm -f "list.$NUMBER"
if [ -n "$bad" ]; then
  rm -f $bad
  [ -z "$failed" ] || exit 1
fi
[ -z "$good" ] || printf 'good %s\n' $good
echo verified
