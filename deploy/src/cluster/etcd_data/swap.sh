# Puts the unpacked snapshot in place of the member's data (DATA), and starts etcd. Whatever was interrupted in
# between: `.before-restore` is the data from before the first attempt.
: "${DATA:?}"
if [ -d "$DATA.new" ]; then
  if [ -e "$DATA.restoring" ]; then
    rm -rf "$DATA.abandoned"
    [ ! -d "$DATA" ] || mv "$DATA" "$DATA.abandoned"
  elif [ -d "$DATA" ]; then
    rm -rf "$DATA.before-restore"
    mv "$DATA" "$DATA.before-restore"
  fi
  : > "$DATA.restoring"
  mv "$DATA.new" "$DATA"
fi
[ -d "$DATA" ] || exit 1
systemctl start --no-block etcd
