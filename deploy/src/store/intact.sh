# What is in the store can change there: a disk forgets, somebody edits. It is hashed once more right before anything of
# root's reads it.

# sums FILE…: `DIGEST *FILE` for each that can be read. openssl uses what the processor has for sha256, which many a
# sha256sum does not.
sums() {
  if openssl dgst -sha256 -r /dev/null >/dev/null 2>&1; then openssl dgst -sha256 -r "$@"; else sha256sum -b "$@"; fi
}

# damaged FILE…: names those whose content is not what their name says, or that are not there: `damaged DIGEST`.
damaged() {
  [ $# -gt 0 ] || return 0
  { printf 'wanted /%s\n' "$@"; sums "$@" 2>/dev/null || :; } | awk '
    { count = split($0, parts, "[/*]"); name = parts[count] }
    $1 == "wanted" { wanted[name]; next }
    $1 == name { delete wanted[name] }
    END { for (name in wanted) print "damaged", name }'
}

# intact FILE…: ends the script unless all of them are what their names say.
intact() {
  found=$(damaged "$@")
  [ -z "$found" ] || { echo "$found"; exit 65; }
}
