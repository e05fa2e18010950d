# Prints the snapshot, which goes. SNAPSHOT: where it is.
cat "$SNAPSHOT"
rm -f "$SNAPSHOT"
