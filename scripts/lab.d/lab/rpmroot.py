"""The RPM-managed host: a root file system whose every file belongs to an RPM.

The files are Debian's, for there is no other distribution to fetch from. Each installed .deb is registered as an RPM (built
from the root file system, with rpm's own generators for soname requirements) in the host's database; then dpkg and apt go.
What remains is a host where `rpm -q`, `rpm -V`, `rpm -i` with dependency checks and `dnf install` are the real thing.
"""

import glob
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

from .process import LabError, need, run, say, tail

PACKAGES = ["rpm", "dnf", "python3"]
RECIPE = 3  # raise it when convert() changes
LEFT_OUT = re.compile(r"apt|dpkg|debconf|debian-archive-keyring|libapt.*")
# what packages of an RPM distribution ask for by another name than Debian's
PROVIDES = {
    "base-files": ["system-release = 8", "filesystem", "redhat-release = 8.4"],
    "bash": ["/bin/bash"],
    "dash": ["/bin/sh"],
    "libc6": ["glibc = 2.36", "rtld(GNU_HASH)"],
    "procps": ["procps-ng"],
    "openssh-server": ["openssh"],
    "iproute2": ["iproute"],
    "systemd": ["systemd-units"],
    "passwd": ["shadow-utils"],
    "util-linux": ["/usr/sbin/nologin"],
}
OS_RELEASE = (
    'NAME="Lab Enterprise Linux"\nID="rhel"\nID_LIKE="fedora centos"\nVERSION_ID="8.4"\nVERSION="8.4"\n'
    'PRETTY_NAME="Lab Enterprise Linux 8.4"\nPLATFORM_ID="platform:el8"\n'
)
# Debian's rpm refuses to install ("use alien") unless told that it is meant
RPM_WRAPPER = """#!/bin/sh
case "$*" in *-i*|*-U*|*-F*|*-e*|*--install*|*--upgrade*|*--erase*|*--reinstall*|*--import*)
  exec /usr/libexec/rpm-real/rpm --force-debian "$@" ;;
esac
exec /usr/libexec/rpm-real/rpm "$@"
"""


def convert(root: str) -> None:
    """Turn a Debian root file system into an RPM-managed one, in place."""
    need("rpmbuild", "rpm")
    say("rpm-amd64: registering every file with rpm")
    work = f"{root}.rpm"
    for name in ("SPECS", "RPMS", "BUILD", "BUILDROOT"):
        os.makedirs(os.path.join(work, name), exist_ok=True)
    try:
        installed = [line.split("\t") for line in dpkg(root, "${binary:Package}\t${Version}\t${Architecture}\n").splitlines()]
        chosen = [entry for entry in installed if not LEFT_OUT.fullmatch(entry[0].split(":")[0])]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for _ in pool.map(lambda entry: build_rpm(root, work, *entry), chosen):
                pass
        register(root, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    dress(root)


def dpkg(root: str, form: str) -> str:
    return run("dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", f"-f={form}")


def build_rpm(root: str, work: str, package: str, version: str, arch: str) -> None:
    """One RPM for one Debian package, with the files as they lie in the root file system."""
    name = package.split(":")[0]
    epoch, _, rest = version.rpartition(":")
    upstream, _, release = rest.rpartition("-")
    if not upstream:
        upstream, release = rest, "1"
    lines = [
        f"Name: {name}",
        f"Version: {upstream.replace('-', '.')}",
        f"Release: {release}",
        f"Summary: {name}",
        "License: see upstream",
    ]
    lines += [f"Epoch: {epoch}"] if epoch else []
    lines += ["BuildArch: noarch"] if arch == "all" else []
    lines += [f"Provides: {provided}" for provided in PROVIDES.get(name, [])]
    lines += ["%description", name, "%files", *owned_files(root, package, name)]
    spec = os.path.join(work, "SPECS", f"{name}.spec")
    with open(spec, "w") as file:
        file.write("\n".join(lines) + "\n")
    defines = {
        "_topdir": work,
        "_rpmdir": f"{work}/RPMS",
        "_builddir": f"{work}/BUILD",
        "__spec_install_pre": "%{nil}",
        "__os_install_post": "%{nil}",
        "_build_id_links": "none",
        "debug_package": "%{nil}",
        "__spec_clean_post": "%{nil}",
        "__spec_clean_cmd": "true",
        "_binary_payload": "w1.gzdio",
        "__arch_install_post": "%{nil}",
        "_unpackaged_files_terminate_build": "0",
    }
    words = [word for key, value in defines.items() for word in ("--define", f"{key} {value}")]
    run("rpmbuild", "-bb", "--quiet", "--noclean", "--buildroot", root, *words, spec)


def owned_files(root: str, package: str, name: str) -> list[str]:
    info = f"{root}/var/lib/dpkg/info"
    path = f"{info}/{package}.list" if os.path.exists(f"{info}/{package}.list") else f"{info}/{name}.list"
    seen: dict[str, None] = {}
    with open(path) as file:
        for line in file.read().splitlines():
            full = root + line
            if os.path.islink(full) or os.path.isfile(full):
                seen[re.sub(r"^/(lib|bin|sbin|lib64)/", r"/usr/\1/", line)] = None
    return [f'"{path}"' for path in seen]


def register(root: str, work: str) -> None:
    """Fill the host's database; what nobody provides (perl's odd modules and the like) goes to one package `lab-compat`."""
    shutil.rmtree(f"{root}/var/lib/rpm", ignore_errors=True)
    os.makedirs(f"{root}/var/lib/rpm")
    os.makedirs(f"{root}/etc/rpm", exist_ok=True)
    rpm = ["rpm", "--root", root, "--dbpath", "/var/lib/rpm", "--ignorearch", "--force-debian"]
    run("rpm", "--root", root, "--dbpath", "/var/lib/rpm", "--initdb")
    built = sorted(glob.glob(f"{work}/RPMS/*/*.rpm"))
    trial = subprocess.run([*rpm, "-i", "--justdb", "--test", *built], capture_output=True, text=True)
    missing = sorted(set(re.findall(r"^\t(\S+) is needed by ", trial.stderr + trial.stdout, re.M)))
    spec = f"{work}/SPECS/lab-compat.spec"
    with open(spec, "w") as file:
        file.write(
            "Name: lab-compat\nVersion: 1\nRelease: 1\nSummary: lab\nLicense: none\n"
            "BuildArch: noarch\nProvides: perl = 1:5.999999\nProvides: config(filesystem)\n"
        )
        file.writelines(f"Provides: {name}\n" for name in missing)
        file.write("%description\nlab\n%files\n")
    run("rpmbuild", "-bb", "--quiet", "--define", f"_topdir {work}", "--define", f"_rpmdir {work}/RPMS", spec)
    done = subprocess.run(
        [*rpm, "-i", "--justdb", *sorted(glob.glob(f"{work}/RPMS/*/*.rpm"))], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise LabError(f"the packages of the RPM host contradict each other\n{tail(done.stderr)}")


def dress(root: str) -> None:
    """Make it look and behave like an RPM distribution."""
    with open(f"{root}/etc/rpm/macros", "w") as file:
        file.write("%_dbpath /var/lib/rpm\n%dist .el8\n")
    os.makedirs(f"{root}/usr/libexec/rpm-real", exist_ok=True)
    os.rename(f"{root}/usr/bin/rpm", f"{root}/usr/libexec/rpm-real/rpm")
    with open(f"{root}/usr/bin/rpm", "w") as file:
        file.write(RPM_WRAPPER)
    os.chmod(f"{root}/usr/bin/rpm", 0o755)
    if os.path.lexists(f"{root}/usr/bin/yum"):
        os.remove(f"{root}/usr/bin/yum")
    os.symlink("dnf", f"{root}/usr/bin/yum")
    shutil.rmtree(f"{root}/etc/yum.repos.d", ignore_errors=True)
    os.makedirs(f"{root}/etc/yum.repos.d")
    with open(f"{root}/usr/lib/os-release", "w") as file:
        file.write(OS_RELEASE)
    with open(f"{root}/etc/redhat-release", "w") as file:
        file.write("Lab Enterprise Linux release 8.4\n")
    for gone in ("etc/debian_version", "etc/os-release"):
        if os.path.lexists(f"{root}/{gone}"):
            os.remove(f"{root}/{gone}")
    os.symlink("../usr/lib/os-release", f"{root}/etc/os-release")
    for pattern in (
        "usr/bin/apt*",
        "usr/bin/dpkg*",
        "usr/sbin/dpkg*",
        "usr/lib/dpkg",
        "usr/lib/apt",
        "var/lib/dpkg",
        "var/lib/apt",
        "etc/apt",
        "etc/dpkg",
        "usr/share/dpkg",
    ):
        for path in glob.glob(f"{root}/{pattern}"):
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
