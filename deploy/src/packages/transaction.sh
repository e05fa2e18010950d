# What package managers do. ROOT: the installer's folder. KEPT: where the node notes what it had.

# lock: held as long as a transaction goes on. A lost connection ends the installer's command, but not the transaction,
# and the command is run again: it waits here and then finds the work done. The package managers do not get the
# descriptor (`9>&-`), for a service that one starts would keep it.
lock() {
  if command -v flock >/dev/null; then exec 9> "$ROOT/packages.lock"; flock 9; fi
}

# prepare FOLDER: takes the packages (a tar on standard input) under their own names into a new folder there, which goes
# at the end. Beside them is a place for apt.
prepare() {
  umask 022
  work=$(mktemp -d "$1/packages.XXXXXX")
  trap tidy EXIT
  mkdir -p "$work/files" "$work/apt/lists/partial" "$work/apt/archives/partial"
  cd "$work/files" || exit
  tar -x -f -
}
# prepare_intact FOLDER: the same with packages of which every byte counts. They are links into the store.
prepare_intact() {
  prepare "$1"
  # shellcheck disable=SC2046 # The links lead to digests.
  intact $(find . -type l -exec readlink {} \;)
}
tidy() {
  [ -z "${held-}" ] || release_services
  [ -z "${work-}" ] || rm -rf "$work"
}
hold() {
  trap tidy EXIT
  held=yes
  hold_services
}

# detached COMMAND…: runs it to its end whatever becomes of the connection; what it said is printed if it failed.
detached() {
  trap '' HUP INT PIPE TERM
  # The subshell waits for its last command too, instead of becoming it: then the lock outlives its parent.
  (exec > ../packages.log 2>&1 < /dev/null; "$@"; :) &
  wait $! || { cat ../packages.log; exit 1; }
}

# apt-get that sees the installed packages and the files it is given, and nothing else. The folder `apt` takes the place
# of its state; the system's own lists and caches are left alone.
apt_alone() {
  DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-remove --no-install-recommends \
    -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/apt/lists" \
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Dir::Cache::Archives="$work/apt/archives" \
    -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@" 9>&-
}

# try_MANAGER FOLDER: whether the manager would take the packages.
try_dpkg() { prepare_intact "$1"; apt_alone -s install ./*.deb 2>&1; }
try_rpm() { prepare_intact "$1"; rpm -U --test ./*.rpm 2>&1; }

# rehearse_MANAGER: the same with stubs, and before there is a folder of ours: of what only the whole package can prove,
# digest and signature, nothing is asked.
rehearse_dpkg() { prepare "${TMPDIR:-/tmp}"; apt_alone -s install ./*.deb 2>&1; }
rehearse_rpm() { prepare "${TMPDIR:-/tmp}"; rpm -U --test --nodigest --nosignature ./*.rpm 2>&1; }

install_dpkg() {
  lock
  prepare_intact "$ROOT"
  hold
  note_accounts
  detached transact_dpkg
  note_brought_accounts
}
transact_dpkg() {
  if [ -n "$(dpkg --audit)" ]; then
    DEBIAN_FRONTEND=noninteractive dpkg --configure -a --force-confdef --force-confold 9>&-
  fi
  apt_alone install ./*.deb
}

install_rpm() {
  lock
  prepare_intact "$ROOT"
  set --
  for file in ./*.rpm; do
    name=$(rpm -qp --qf '%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}' "$file" 2>/dev/null)
    rpm -q --quiet "$name" || set -- "$@" "$file"
  done
  [ $# -gt 0 ] || return 0
  note_accounts
  detached transact_rpm "$@"
  note_brought_accounts
  reload_units
}
# Offline mode: a scriptlet's `systemctl start` does nothing, `enable` still works.
transact_rpm() {
  SYSTEMD_OFFLINE=1
  export SYSTEMD_OFFLINE
  rpm -U --test "$@"
  rpm -U "$@" 9>&-
}

# from_MANAGER TOOL NAME…: packages from the node's repositories. What these bring along is noted.
from_dpkg() {
  tool=$1; shift
  lock
  hold
  note_packages dpkg
  note_accounts
  DEBIAN_FRONTEND=noninteractive "$tool" -y --no-remove --no-install-recommends install "$@" 2>&1 9>&- || exit 1
  note_brought dpkg
  note_brought_accounts
}
from_rpm() {
  tool=$1; shift
  lock
  note_packages rpm
  note_accounts
  SYSTEMD_OFFLINE=1 "$tool" -y install "$@" 2>&1 9>&-
  note_brought rpm
  note_brought_accounts
  reload_units
}

all_dpkg() { dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package}\n' | awk '$1 ~ /^.i/ { print $2 }'; }
all_rpm() { rpm -qa --qf '%{NAME}\n'; }

# note_packages MANAGER: the packages of before, noted once: a run that was interrupted has changed them already.
note_packages() {
  note "$KEPT/brought.before" "all_$1"
  # Without it all packages of the node would count as brought along.
  [ -s "$KEPT/brought.before" ] ||
    { rm -f "$KEPT/brought.before"; echo "the package manager lists no packages" >&2; exit 1; }
}
note_brought() {
  "all_$1" | grep -vxF -f "$KEPT/brought.before" >> "$KEPT/brought" || :
  rm -f "$KEPT/brought.before"
}
