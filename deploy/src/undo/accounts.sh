# Users and groups. KEPT: the file `accounts` there names those that were made for us, one `user NAME` or `group NAME` a
# line. NODE: the root of the node's files, empty but in tests.
PATH=$PATH:/usr/sbin:/sbin

# make_account NAME: a user for a service and a group of the same name, unless they exist; prints what it made.
make_account() {
  if ! getent group "$1" >/dev/null; then
    made_account group "$1"
    groupadd --system "$1"
  fi
  if ! getent passwd "$1" >/dev/null; then
    made_account user "$1"
    shell=/bin/false
    for found in /sbin/nologin /usr/sbin/nologin; do if [ -x "$found" ]; then shell=$found; fi; done
    useradd --system --gid "$1" --no-create-home --home-dir "/var/lib/$1" --shell "$shell" "$1"
  fi
}
# Noted before it is made: an interruption leaves no account that nobody knows of.
made_account() {
  mkdir -p "$KEPT"
  grep -qsxF -e "$1 $2" "$KEPT/accounts" || echo "$1 $2" >> "$KEPT/accounts"
  echo "$1 $2"
}

# note_accounts: those of before a transaction of packages, once: one that was interrupted has made some already.
note_accounts() { note "$KEPT/accounts.before" list_accounts; }
list_accounts() {
  awk -F: '{ print (FILENAME ~ /passwd$/ ? "user " : "group ") $1 }' "$NODE/etc/passwd" "$NODE/etc/group"
}
# note_brought_accounts: those that the packages brought.
note_brought_accounts() {
  [ -s "$KEPT/accounts.before" ] || return 0
  list_accounts | grep -vxF -f "$KEPT/accounts.before" >> "$KEPT/accounts" || :
  rm -f "$KEPT/accounts.before"
}

# remove_accounts: those that were made for us, unless a unit that is still installed names them, or a process runs as
# the user.
remove_accounts() {
  [ -f "$KEPT/accounts" ] || return 0
  # Users first: a group that is somebody's own cannot go.
  for kind in user group; do
    # They are plain words.
    # shellcheck disable=SC2013
    for name in $(sed -n "s/^$kind \([A-Za-z0-9_][A-Za-z0-9_.-]*\)\$/\1/p" "$KEPT/accounts"); do
      if needs_account "$name"; then continue; fi
      case $kind in
        user) if getent passwd "$name" >/dev/null; then userdel "$name" 2>/dev/null || :; fi ;;
        group) if getent group "$name" >/dev/null; then groupdel "$name" 2>/dev/null || :; fi ;;
      esac
    done
  done
}
needs_account() {
  grep -rqsxF -e "User=$1" -e "Group=$1" -e "SocketUser=$1" -e "SocketGroup=$1" \
    "$NODE/etc/systemd/system" "$NODE/usr/lib/systemd/system" "$NODE/lib/systemd/system"
}
