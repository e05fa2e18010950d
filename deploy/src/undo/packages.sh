# Packages. KEPT: the file `brought` there names what the node's repositories brought, one package a line.
# POLICY: Debian's way of saying that no maintainer script may start anything. POLICY_MARK: the line by which ours is
# told from the administrator's. What was there before ours is kept as `policy-rc.d`.

is_our_policy() { grep -qsxF -e "$POLICY_MARK" "$POLICY"; }

# hold_services: no maintainer script starts anything. What is kept is complete before ours takes its place. An empty
# policy is none, but what a fault of the disk has left of ours.
hold_services() {
  if is_our_policy; then return 0; fi
  mkdir -p "$KEPT"
  if [ -s "$POLICY" ] || [ -L "$POLICY" ]; then
    rm -f "$KEPT/policy-rc.d.new"
    cp -a "$POLICY" "$KEPT/policy-rc.d.new"
    settle "$KEPT"
    mv -fT "$KEPT/policy-rc.d.new" "$KEPT/policy-rc.d"
  elif [ ! -e "$POLICY" ]; then rm -f "$KEPT/policy-rc.d"; fi
  printf '#!/bin/sh\n%s\nexit 101\n' "$POLICY_MARK" | replace "$POLICY" 755
}

# release_services: maintainer scripts may start services again. Only called where they were held.
release_services() {
  if is_our_policy || { [ -f "$POLICY" ] && [ ! -s "$POLICY" ]; }; then
    if [ -e "$KEPT/policy-rc.d" ] || [ -L "$KEPT/policy-rc.d" ]; then
      rm -f "$POLICY.eggo-new"
      cp -a "$KEPT/policy-rc.d" "$POLICY.eggo-new"
      settle "$POLICY.eggo-new"
      mv -fT "$POLICY.eggo-new" "$POLICY"
    else rm -f "$POLICY"; fi
  fi
  rm -f "$POLICY.eggo-new" "$KEPT/policy-rc.d" "$KEPT/policy-rc.d.new"
  reload_units
}
reload_units() { systemctl daemon-reload 2>/dev/null || :; }

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
