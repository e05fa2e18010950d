"""A virtual arm64 machine: its own kernel (Debian's), cgroup v2, netem, IPVS and a clock of its own; slow, and faithful.

qemu-system runs from a root file system of its own, because its Debian package cannot stand beside some other ones that a
machine may have. The kernel starts from a tiny initrd that sets the address, so the disk is like any other host's.
"""

import glob
import os
import shlex
import shutil
import subprocess

from . import cgroups, debian, network, rootfs
from .hosts import Host, answers
from .process import run, say, succeeds
from .settings import SUITE, cache

MEMORY = 2048
MODULES = ["virtio_pci", "virtio_mmio", "virtio_blk", "ext4", "virtio_net", "virtio_rng"]
INIT = """#!/bin/sh
B=/bin/busybox
$B mount -t proc proc /proc; $B mount -t sysfs sysfs /sys; $B mount -t devtmpfs dev /dev
while read module; do $B insmod /lib/modules/$module; done < /modules
for try in 1 2 3 4 5 6 7 8 9; do [ -e /dev/vda ] && break; $B sleep 0.2; done
$B mount -t ext4 /dev/vda /new || exec $B sh
for word in $($B cat /proc/cmdline); do
  case $word in lab.address=*) address=${word#*=} ;; lab.gateway=*) gateway=${word#*=} ;; esac
done
$B ip link set lo up; $B ip address add $address/24 dev eth0; $B ip link set eth0 up; $B ip route add default via $gateway
for place in proc sys dev; do $B mount --move /$place /new/$place; done
exec $B switch_root /new /sbin/init
"""


class Machine(Host):
    """A host with a kernel of its own. This machine sees its disk only while it is off."""

    shares_kernel = False

    def create(self) -> None:
        kernel()
        emulator()
        self.save()
        self.fresh_disk()
        self.unmount()

    def reset(self) -> None:
        super().reset()
        self.unmount()

    def ready(self) -> bool:
        return answers(self.address)

    def boot(self) -> None:
        if self.running():
            return
        self.unmount()
        kernel()
        self.connect()
        command = [
            "qemu-system-aarch64",
            "-M",
            "virt",
            "-cpu",
            "cortex-a57",
            "-accel",
            "tcg,thread=multi,tb-size=256",
            "-smp",
            "2",
            "-m",
            str(MEMORY),
            "-nographic",
            "-no-reboot",
            "-kernel",
            "/lab/kernel/vmlinuz",
            "-initrd",
            "/lab/kernel/initrd",
            "-append",
            f"console=ttyAMA0 root=/dev/vda rw net.ifnames=0 lab.address={self.address} lab.gateway={self.lab.gateway}",
            "-drive",
            "file=/lab/host/disk.ext4,format=raw,if=virtio,cache=unsafe",
            "-netdev",
            f"tap,id=n0,ifname={network.link_of(self.lab, self.index)},script=no,downscript=no",
            "-device",
            f"virtio-net-pci,netdev=n0,mac={network.hardware_address(self.address)},romfile=",
            "-device",
            "virtio-rng-pci",
            "-monitor",
            "none",
            "-serial",
            "file:/lab/host/console.log",
        ]
        script = "".join(f"echo 0 > {shlex.quote(entry)}\n" for entry in cgroups.create(self.unit)) + self.in_emulator(
            command
        )
        with open(os.path.join(self.folder, "qemu.log"), "wb") as log:
            # its own mounts vanish with it; as a slave it lets go of what is unmounted here
            subprocess.Popen(
                ["unshare", "--mount", "--propagation=slave", "/bin/sh", "-ec", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def in_emulator(self, command: list[str]) -> str:
        """A script that runs a command in the emulator's root, with this host and the kernel under /lab."""
        tools = emulator()
        binds = {"/dev": "dev", "/proc": "proc", self.folder: "lab/host", cache("vm", "kernel"): "lab/kernel"}
        lines = []
        for source, place in binds.items():
            os.makedirs(os.path.join(tools, place), exist_ok=True)
            lines.append(f"mount --bind {shlex.quote(source)} {shlex.quote(os.path.join(tools, place))}\n")
        return "".join(lines) + f"exec chroot {shlex.quote(tools)} {shlex.join(command)}"

    def inside(self, script: str) -> None:
        run(*self.ssh(script))

    def connect(self) -> None:
        link = network.link_of(self.lab, self.index)
        if not succeeds("ip", "link", "show", link):
            run("ip", "tuntap", "add", link, "mode", "tap")
        run("ip", "link", "set", link, "master", self.lab.bridge, "up")


def emulator() -> str:
    """A root file system with qemu-system-aarch64."""
    path = cache("vm", "qemu")
    with rootfs.locked("vm-qemu"):
        if not os.path.isdir(path):
            say("vm-arm64: installing qemu-system into a root file system of its own")
            shutil.rmtree(f"{path}.part", ignore_errors=True)
            run(
                "mmdebstrap",
                "--variant=extract",
                "--quiet",
                "--include=qemu-system-arm,coreutils",
                "--skip=cleanup/apt/cache",
                SUITE,
                f"{path}.part",
                debian.mirror(),
            )
            os.rename(f"{path}.part", path)
    return path


def kernel() -> dict[str, str]:
    """Debian's arm64 kernel for virtual machines, its modules, and an initrd."""
    folder = cache("vm", "kernel")
    files = {
        "kernel": os.path.join(folder, "vmlinuz"),
        "initrd": os.path.join(folder, "initrd"),
        "modules": os.path.join(folder, "root/lib/modules"),
    }
    with rootfs.locked("vm-kernel"):
        if not os.path.exists(files["initrd"]):
            say("vm-arm64: fetching the kernel")
            make_kernel(folder, files)
    return files


def make_kernel(folder: str, files: dict[str, str]) -> None:
    apt = debian.Apt("arm64")
    meta = run("apt-cache", *apt.options, "depends", "linux-image-cloud-arm64")
    image = next(line.split()[-1] for line in meta.splitlines() if "Depends: linux-image" in line)
    packages = apt.download(os.path.join(folder, "debs"), image, "busybox-static")
    root, busybox = os.path.join(folder, "root"), os.path.join(folder, "busybox")
    for package, place in zip(packages, (root, busybox), strict=True):
        run("dpkg", "-x", package, place)
    (version,) = os.listdir(files["modules"])
    run("depmod", "-b", root, version)
    shutil.copy2(os.path.join(root, f"boot/vmlinuz-{version}"), files["kernel"])
    make_initrd(folder, files, root, busybox, version)


def make_initrd(folder: str, files: dict[str, str], root: str, busybox: str, version: str) -> None:
    tree = os.path.join(folder, "initrd.tree")
    shutil.rmtree(tree, ignore_errors=True)
    for name in ("bin", "dev", "proc", "sys", "new", "lib/modules"):
        os.makedirs(os.path.join(tree, name))
    shutil.copy2(os.path.join(busybox, "bin/busybox"), os.path.join(tree, "bin/busybox"))
    os.symlink("busybox", os.path.join(tree, "bin/sh"))
    needed: dict[str, None] = {}
    for module in MODULES:
        shown = subprocess.run(
            ["modprobe", "-d", root, "-S", version, "--show-depends", module], capture_output=True, text=True
        ).stdout
        needed.update((line.split()[1], None) for line in shown.splitlines() if line.startswith("insmod"))
    for path in needed:
        shutil.copy2(path, os.path.join(tree, "lib/modules"))
    rootfs.write(tree, "modules", "".join(f"{os.path.basename(path)}\n" for path in needed))
    rootfs.write(tree, "init", INIT, mode=0o755)
    run(
        "sh",
        "-c",
        f"cd {shlex.quote(tree)} && find . | cpio -o -H newc --quiet | gzip -1 > {shlex.quote(files['initrd'])}.part",
    )
    os.rename(f"{files['initrd']}.part", files["initrd"])


def adapt(root: str) -> None:
    """The kernel's own modules on the disk of a virtual machine."""
    files = kernel()
    os.makedirs(os.path.join(root, "usr/lib/modules"), exist_ok=True)
    run("cp", "-a", files["modules"] + "/.", os.path.join(root, "usr/lib/modules"))
    for config in glob.glob(os.path.join(os.path.dirname(files["kernel"]), "root/boot/config-*")):
        shutil.copy2(config, os.path.join(root, "boot"))
