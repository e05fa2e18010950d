"""arm64 on an amd64 machine by qemu-user: what runs the programs, and what replaces those that it cannot run.

qemu-user translates a program's instructions and system calls. Three things it cannot: the netfilter netlink protocol
(iptables, ipset, conntrack, nft), runc's re-execution, and the kernel's view of a program's arch (seccomp). For those an
arm64 host has the amd64 program under the same path, by dpkg's own diversions: a package that is installed later puts its
arm64 file beside it, as NAME.arm64.
"""

import glob
import os
import shutil

from . import debian
from .process import LabError, run, say
from .settings import CACHE, SUITE, cache

RECIPE = 5  # raise it when adapt() changes
ENTRY = "/proc/sys/fs/binfmt_misc/eggo-lab-aarch64"
MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
# qemu-user cannot do the mounts of LoadCredential= (status 243/CREDENTIALS)
WITHOUT_CREDENTIALS = [
    "systemd-sysctl",
    "systemd-sysusers",
    "systemd-tmpfiles-setup-dev",
    "systemd-tmpfiles-setup",
    "systemd-tmpfiles-clean",
]
NATIVE_PACKAGES = [
    "iptables",
    "nftables",
    "conntrack",
    "ipset",
    "runc",
    "containernetworking-plugins",
    "libc6",
    "libgcc-s1",
    "libxtables12",
    "libip4tc2",
    "libip6tc2",
    "libmnl0",
    "libnftnl11",
    "libnfnetlink0",
    "libnetfilter-conntrack3",
    "libipset13",
    "libseccomp2",
    "libnftables1",
    "libjansson4",
    "libgmp10",
    "libedit2",
    "libtinfo6",
    "libbsd0",
    "libmd0",
    "libnetfilter-cthelper0",
]
DIVERTED = [
    "/usr/sbin/xtables-nft-multi",
    "/usr/sbin/xtables-legacy-multi",
    "/usr/sbin/nft",
    "/usr/sbin/conntrack",
    "/sbin/ipset",
    "/usr/sbin/ipset",
    "/usr/lib/cni/*",
]


def qemu() -> str:
    """A static qemu-aarch64 of version 10: the machine's own 7.2 is too old for containerd's shim."""
    program = cache("qemu", "usr/bin/qemu-aarch64")
    if not os.path.exists(program):
        say("fetching qemu-user from backports")
        folder = cache("qemu")
        (package,) = debian.Apt(suites=(f"{SUITE}-backports",)).download(folder, "qemu-user")
        run("dpkg", "-x", package, folder)
        if not os.path.exists(program):
            raise LabError(
                f"`{os.path.basename(package)}` holds no qemu-aarch64", hint="the lab needs qemu-user 10 from backports"
            )
    # with the flag P the kernel passes argv[0]; qemu takes that into account when it is called by this name
    named = os.path.join(os.path.dirname(program), "aarch64-binfmt-P")
    if not os.path.exists(named):
        shutil.copy2(program, named)
    return named


def register() -> None:
    """Let the kernel run arm64 programs. F: the interpreter is opened now, so chroots and containers need no copy of it;
    C: setuid programs (sudo) work."""
    folder = os.path.dirname(ENTRY)
    if not os.path.exists(f"{folder}/register"):
        run("mount", "-t", "binfmt_misc", "none", folder)
    if not os.path.exists(ENTRY):
        with open(f"{folder}/register", "w") as file:
            file.write(f":{os.path.basename(ENTRY)}:M::{MAGIC}:{MASK}:{qemu()}:OCPF")


def unregister() -> None:
    """Only what was registered from this cache: labs of another one may live on."""
    if os.path.exists(ENTRY):
        with open(ENTRY) as file:
            ours = f"interpreter {CACHE}/" in file.read()
        if ours:
            with open(ENTRY, "w") as file:
                file.write("-1")


def adapt(root: str) -> None:
    """Put native programs in the place of those that cannot be emulated."""
    for unit in WITHOUT_CREDENTIALS:
        folder = os.path.join(root, f"etc/systemd/system/{unit}.service.d")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "qemu-user.conf"), "w") as file:
            file.write("[Service]\nLoadCredential=\nSetCredential=\n")
    native = unpack_native()
    copy_libraries(native, root)
    diversions = []
    for pattern in DIVERTED:
        for source in sorted(glob.glob(native + pattern)):
            path = source[len(native) :]
            target = root + path
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
            diversions.append(f"{path}\n{path}.arm64\n:\n")
    with open(os.path.join(root, "var/lib/dpkg/diversions"), "a") as file:
        file.writelines(diversions)
    os.makedirs(os.path.join(root, "usr/lib/eggo-lab"), exist_ok=True)
    shutil.copy2(os.path.join(native, "usr/sbin/runc"), os.path.join(root, "usr/lib/eggo-lab/runc"))


def unpack_native() -> str:
    folder = cache("native")
    for package in debian.Apt().download(os.path.join(folder, "debs"), *NATIVE_PACKAGES):
        run("dpkg", "-x", package, os.path.join(folder, "root"))
    return os.path.join(folder, "root")


def copy_libraries(native: str, root: str) -> None:
    """amd64 libraries have a folder of their own on Debian, and the loader looks there by itself."""
    target = os.path.join(root, "usr/lib/x86_64-linux-gnu")
    for folder in ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"):
        run("cp", "-a", os.path.join(native, folder) + "/.", target) if os.path.isdir(target) else run(
            "cp", "-a", os.path.join(native, folder), target
        )
    os.makedirs(os.path.join(root, "usr/lib64"), exist_ok=True)
    shutil.copy2(os.path.join(target, "ld-linux-x86-64.so.2"), os.path.join(root, "usr/lib64/ld-linux-x86-64.so.2"))
    if not os.path.lexists(os.path.join(root, "lib64")):
        os.symlink("usr/lib64", os.path.join(root, "lib64"))
