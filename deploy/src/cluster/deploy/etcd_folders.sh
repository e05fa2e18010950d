# Makes the folders that etcd writes to (the arguments), and gives them to its user and group (ACCOUNT), with all that is
# in them: an etcd that ran as another user ends first, for it would go on to write as that.
umask 022
for folder; do
  above=${folder%/*}
  mkdir -p "$above"
  # On the way to the folder its user must get through.
  case $(stat -c '%U %a' "$above") in "$ACCOUNT "* | *[1357]) ;; *) chmod o+x "$above" ;; esac
  [ -d "$folder" ] || mkdir -m 0700 "$folder"
  if [ -n "$(find "$folder" '(' ! -user "$ACCOUNT" -o ! -group "$ACCOUNT" ')' -print -quit)" ]; then
    systemctl stop etcd 2>/dev/null || :
    # Never what a link leads to.
    chown -hR "$ACCOUNT:$ACCOUNT" "$folder"
  fi
  chmod 0700 "$folder"
done
