# Packages. KEPT: the file `brought` there names what the node's repositories brought, one package a line.
# POLICY: Debian's way of saying that no maintainer script may start anything. POLICY_MARK: the line by which ours is
# told from the administrator's.

# release_services: maintainer scripts may start services again.
release_services() {
  if grep -qsxF -e "$POLICY_MARK" "$POLICY"; then rm -f "$POLICY"; fi
  systemctl daemon-reload 2>/dev/null || :
}
hold_services() {
  [ ! -e "$POLICY" ] || return 0
  printf '#!/bin/sh\n%s\nexit 101\n' "$POLICY_MARK" > "$POLICY"
  chmod 755 "$POLICY"
}

installed_dpkg() { dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package}\n' "$@" 2>/dev/null | awk '$1 !~ /^.n/ { print $2 }'; }
would_dpkg() { dpkg --no-act --purge "$@"; }
remove_dpkg() { DEBIAN_FRONTEND=noninteractive dpkg --purge "$@"; }

installed_rpm() { for one; do if rpm -q --quiet "$one"; then echo "$one"; fi; done; }
would_rpm() { rpm -e --test "$@"; }
remove_rpm() { rpm -e "$@"; }

# remove_packages MANAGER NAME…: removes what of them is still there, without touching anything else: a package that
# someone else's package needs by now stays. All at once, for they may need each other; else one by one, as long as
# any can go.
remove_packages() {
  manager=$1; shift
  # Asked for none, dpkg-query lists all.
  [ $# -gt 0 ] || return 0
  # shellcheck disable=SC2046
  set -- $("installed_$manager" "$@")
  [ $# -gt 0 ] || return 0
  if "would_$manager" "$@" >/dev/null 2>&1; then "remove_$manager" "$@"; return; fi
  again=yes
  while [ -n "$again" ]; do
    again='' left=''
    for one; do
      if "would_$manager" "$one" >/dev/null 2>&1; then "remove_$manager" "$one"; again=yes; else left="$left $one"; fi
    done
    # shellcheck disable=SC2086
    set -- $left
  done
}

# remove_brought MANAGER: the same for what that file names.
remove_brought() {
  [ -s "$KEPT/brought" ] || return 0
  # shellcheck disable=SC2046
  remove_packages "$1" $(grep -xE '[A-Za-z0-9][A-Za-z0-9+._~:-]*' "$KEPT/brought")
  rm -f "$KEPT/brought"
}
