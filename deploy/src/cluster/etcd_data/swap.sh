# Puts the unpacked snapshot in place of the member's data (DATA), and starts etcd. Whatever was interrupted in
# between: `.before-restore` is the data from before the first attempt. The folder above may be that of etcd's user:
# no link of theirs is followed.
: "${DATA:?}"
if [ -d "$DATA.new" ]; then
  if [ -e "$DATA.restoring" ]; then
    rm -rf "$DATA.abandoned"
    [ ! -d "$DATA" ] || mv -T "$DATA" "$DATA.abandoned"
  else
    if [ -d "$DATA" ]; then
      rm -rf "$DATA.before-restore"
      mv -T "$DATA" "$DATA.before-restore"
    fi
    mkdir "$DATA.restoring"
  fi
  mv -T "$DATA.new" "$DATA"
fi
[ -d "$DATA" ] || exit 1
systemctl start --no-block etcd
