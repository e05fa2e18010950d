# Takes the list of what is needed on standard input; prints what it removed. Interrupted anywhere, it has removed
# nothing that either list names: the old list takes the place of the previous one before the new one takes its
# own. Scratch folders of a node that crashed go too, and the note of an upgrade that was interrupted: a whole
# install has finished it. ROOT: the installer's folder, FORMER: that note.
umask 077; mkdir -p "$ROOT/store/sha256" "$ROOT/store/in"; cd "$ROOT/store" || exit; cat > current.new
if [ -e current ] && ! cmp -s current current.new; then mv -f current previous; fi
mv -f current.new current; touch previous
# The names are digests.
# shellcheck disable=SC2010
ls sha256 | grep -vxF -f current -f previous > unneeded || :
while read -r name; do
  case $name in '' | */*) continue ;; esac
  rm -f "sha256/$name"; echo "$name"
done < unneeded
rm -f unneeded in/*
remove "$ROOT" "$ROOT"/packages.?????? "$ROOT"/images.?????? "$ROOT"/hook.?????? "$ROOT"/kept/work.??????
rm -f "$FORMER"
