# Puts programs back. Arguments: PATH DIGEST, again and again. Prints `back PATH`, or `lost PATH` where there is no copy.
# KEPT: what was replaced; it may be of a version in between, so the digest decides. STORE: content by its digest, which
# has no mode of its own.
digest() { sha256sum < "$1" | cut -d' ' -f1; }
back() {
  if [ -f "$1" ] && [ "$(digest "$1")" = "$2" ]; then return 0; fi
  for found in "$KEPT/previous$1" "$KEPT/original$1" "$STORE/$2"; do
    if [ ! -f "$found" ] || [ "$(digest "$found")" != "$2" ]; then continue; fi
    cp -a "$found" "$1.eggo-new"
    if [ "$found" = "$STORE/$2" ]; then chmod 755 "$1.eggo-new"; fi
    mv -f "$1.eggo-new" "$1"
    echo "back $1"
    return 0
  done
  echo "lost $1"
}
while [ $# -ge 2 ]; do back "$1" "$2"; shift 2; done
