"""Root file systems and disk templates of the host kinds.

Two steps, each kept in the cache under a digest of its recipe. A *base* is what the package manager makes (minutes, more
under emulation); a *template* is a base with the lab's configuration, as an ext4 image that each host copies (seconds).
A host is a bare node: sshd, systemd, sudo, tar, iproute2, the package manager, and nothing that a bundle should bring.
"""

import fcntl
import glob
import hashlib
import os
import platform
import shutil
import tempfile

from . import arm64, modules, rpmroot
from .debian import mirror
from .process import LabError, need, run, say
from .settings import CACHE, SUITE, cache

KINDS = ("deb-amd64", "deb-arm64", "rpm-amd64", "vm-arm64")
TEMPLATE_SIZE = "20G"
# kmod and procps come with every installed Debian (kernel, sysctl); minbase leaves them out
PACKAGES = ["systemd", "systemd-sysv", "dbus", "openssh-server", "sudo", "tar", "iproute2", "kmod", "procps"]
# they wait for hardware or a network that no lab host has
MASKED = [
    "getty@tty1.service",
    "serial-getty@.service",
    "console-getty.service",
    "systemd-timesyncd.service",
    "systemd-networkd-wait-online.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "fstrim.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "systemd-logind.service",
    "systemd-firstboot.service",
    "dnf-makecache.timer",
]
HOST_FILES = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "host")
CONFIGURATION = 4  # raise it when configure() changes


def arch_of(kind: str) -> str:
    return kind.split("-")[1]


def template(kind: str) -> str:
    """The ext4 image that hosts of this kind start from; made when the cache lacks it."""
    path = cache("images", f"{kind}-{template_digest(kind)}.ext4")
    if os.path.exists(path):
        return path
    with locked(f"template-{kind}"):
        if not os.path.exists(path):
            make_template(kind, path)
    return path


def make_template(kind: str, path: str) -> None:
    archive = base(kind)
    say(f"{kind}: making the disk template")
    with scratch() as root:
        run("tar", "-xpf", archive, "-C", root, "--numeric-owner")
        configure(root, kind)
        make_disk(root, path)


def make_disk(root: str, path: str, size: str = TEMPLATE_SIZE) -> None:
    part = f"{path}.part"
    with open(part, "wb") as file:
        file.truncate(gigabytes(size))
    run(
        "mke2fs",
        "-q",
        "-F",
        "-t",
        "ext4",
        "-m0",
        "-E",
        "lazy_itable_init=1,lazy_journal_init=1",
        "-O",
        "^has_journal",
        "-d",
        root,
        part,
    )
    os.rename(part, path)


def gigabytes(size: str) -> int:
    """`20G`, `400M` to bytes."""
    units = {"M": 1 << 20, "G": 1 << 30}
    if size[-1] not in units or not size[:-1].isdigit():
        raise LabError(f"`{size}` is no disk size", hint="write it as 400M or 20G")
    return int(size[:-1]) * units[size[-1]]


def base(kind: str) -> str:
    """The archive of a root file system as the package manager made it."""
    path = cache("rootfs", f"{kind.replace('vm-', 'deb-')}-{base_digest(kind)}.tar")
    with locked(f"base-{kind.replace('vm-', 'deb-')}"):
        if not os.path.exists(path):
            need("mmdebstrap", "mmdebstrap")
            if arch_of(kind) == "arm64":
                arm64.register()
            debootstrap(kind, path)
    return path


def debootstrap(kind: str, path: str) -> None:
    arch, packages = arch_of(kind), base_packages(kind)
    say(
        f"{kind}: installing {len(packages)} packages into a new root file system"
        + (" under emulation (some minutes)" if arch == "arm64" else "")
    )
    debs = cache("debs", arch)
    os.makedirs(debs, exist_ok=True)
    with scratch() as root:
        run(
            # should this script be killed, mmdebstrap ends too, and unmounts what it mounted
            "setpriv",
            "--pdeathsig",
            "TERM",
            "mmdebstrap",
            f"--arch={arch}",
            "--variant=minbase",
            "--quiet",
            f"--include={','.join(packages)}",
            '--aptopt=Acquire::Languages "none"',
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/man/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            "--dpkgopt=force-unsafe-io",
            "--skip=cleanup/apt/cache",
            "--skip=check/qemu",
            '--setup-hook=mkdir -p "$1/var/cache/apt/archives"; '
            f'cp -n {debs}/*.deb "$1/var/cache/apt/archives/" 2>/dev/null || true',
            f'--customize-hook=cp -n "$1"/var/cache/apt/archives/*.deb {debs}/ 2>/dev/null || true; '
            'rm -f "$1"/var/cache/apt/archives/*.deb',
            SUITE,
            root,
            mirror(),
        )
        if kind.startswith("rpm"):
            rpmroot.convert(root)
        run("tar", "-cf", f"{path}.part", "--numeric-owner", "-C", root, ".")
    os.rename(f"{path}.part", path)


def base_packages(kind: str) -> list[str]:
    return PACKAGES + (rpmroot.PACKAGES if kind.startswith("rpm") else [])


def base_digest(kind: str) -> str:
    return digest(SUITE, arch_of(kind), *base_packages(kind), rpmroot.RECIPE if kind.startswith("rpm") else "")


def template_digest(kind: str) -> str:
    host_files = [contents(os.path.join(HOST_FILES, name)) for name in sorted(os.listdir(HOST_FILES))]
    return digest(
        base_digest(kind),
        platform.release(),
        TEMPLATE_SIZE,
        CONFIGURATION,
        arm64.RECIPE if kind == "deb-arm64" else "",
        *MASKED,
        *host_files,
    )


def digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(str(part) for part in parts).encode()).hexdigest()[:12]


def configure(root: str, kind: str) -> None:
    """What makes a root file system a host of this lab. No keys and no name: a host gets its own."""
    write(
        root,
        "etc/ssh/sshd_config.d/lab.conf",
        "PermitRootLogin yes\nUseDNS no\nMaxStartups 200:30:400\nMaxSessions 100\n",
    )
    if arch_of(kind) == "arm64":
        arm64.register()
    run("chroot", root, "useradd", "-m", "-s", "/bin/bash", "ops")
    run("chroot", root, "chpasswd", input="root:lab\nops:lab\n")
    write(root, "etc/sudoers.d/ops", "ops ALL=(ALL) NOPASSWD:ALL\n", mode=0o440)
    write(root, "etc/machine-id", "")
    write(root, "etc/resolv.conf", "# air-gapped\n")
    if kind.startswith("deb") or kind.startswith("vm"):
        write(root, "etc/apt/sources.list", "")
    for unit in MASKED:
        link(root, f"etc/systemd/system/{unit}", "/dev/null")
    link(root, "etc/systemd/system/default.target", "/lib/systemd/system/multi-user.target")
    for key in ("ecdsa", "ed25519", "rsa"):
        for suffix in ("", ".pub"):
            path = os.path.join(root, f"etc/ssh/ssh_host_{key}_key{suffix}")
            if os.path.exists(path):
                os.remove(path)
    if not kind.startswith("vm"):
        modules.pretend(root)
        share_kernel(root)
    if kind == "deb-arm64":
        arm64.adapt(root)
    if kind == "vm-arm64":
        from . import vm  # it builds on this module

        vm.adapt(root)


def share_kernel(root: str) -> None:
    """The first process, and the runc that stands before the real one."""
    folder = os.path.join(root, "usr/lib/eggo-lab")
    os.makedirs(folder, exist_ok=True)
    shutil.copy2(os.path.join(HOST_FILES, "init"), os.path.join(folder, "init"))
    os.makedirs(os.path.join(root, "usr/local/sbin"), exist_ok=True)
    shutil.copy2(runc_lab(), os.path.join(root, "usr/local/sbin/runc"))


def runc_lab() -> str:
    source = os.path.join(HOST_FILES, "runc.go")
    program = cache("runc-lab", digest(contents(source)))
    if not os.path.exists(program):
        go = next((path for path in ("/usr/lib/go-1.19/bin/go", shutil.which("go")) if path and os.path.exists(path)), None)
        if go is None:
            raise LabError("Go is not installed (Debian package `golang-1.19-go`)", hint="run scripts/setup lab")
        environment = dict(
            os.environ,
            CGO_ENABLED="0",
            GOARCH="amd64",
            GO111MODULE="off",
            GOCACHE=cache("build", "gocache-1.19"),
            GOFLAGS="",
        )
        run(go, "build", "-ldflags=-s -w", "-o", program, source, env=environment)
    return program


def contents(path: str) -> str:
    with open(path) as file:
        return file.read()


def write(root: str, path: str, text: str, mode: int = 0o644) -> None:
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    if os.path.islink(full):
        os.remove(full)
    with open(full, "w") as file:
        file.write(text)
    os.chmod(full, mode)


def link(root: str, path: str, target: str) -> None:
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    if os.path.lexists(full):
        os.remove(full)
    os.symlink(target, full)


class scratch:
    """A root folder that is gone afterwards, also when something failed."""

    def __enter__(self) -> str:
        os.makedirs(CACHE, exist_ok=True)
        for left in glob.glob(os.path.join(CACHE, "scratch-*-*")):
            if not os.path.exists(f"/proc/{os.path.basename(left).split('-')[1]}"):  # its maker was killed
                run("rm", "-rf", "--one-file-system", left)
        self.outer = tempfile.mkdtemp(prefix=f"scratch-{os.getpid()}-", dir=CACHE)
        self.root = os.path.join(self.outer, "root")
        os.makedirs(self.root, mode=0o755)
        return self.root

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.outer, ignore_errors=True)


class locked:
    """Two labs that want the same thing made: the second waits for the first."""

    def __init__(self, name: str) -> None:
        self.path = cache("locks", name)

    def __enter__(self) -> None:
        self.file = open(self.path, "w")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting: another lab is at the same ({os.path.basename(self.path)})")
            fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self.file.close()
