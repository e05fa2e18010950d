"""One host that shares the machine's kernel: a disk, a network namespace, a cgroup, and systemd-nspawn over them.

A host's folder holds what outlives its crashes: `host.json` (kind, address index, disk size), its disk, its ssh host key.
"""

import json
import os
import shlex
import shutil
import socket
import subprocess
import time

from . import arm64, cgroups, network, rootfs
from .process import LabError, run, say, succeeds
from .settings import Lab

FIRST_INDEX = 11  # hosts have addresses from .11 on
BOOT_PATIENCE = {
    "deb-amd64": 120,
    "rpm-amd64": 120,
    "deb-arm64": 300,
    "vm-arm64": 900,
}  # seconds, on a machine that is busy with other things


class Host:
    shares_kernel = True

    def __init__(self, lab: Lab, name: str, kind: str, index: int, size: str) -> None:
        self.lab, self.name, self.kind, self.index, self.size = lab, name, kind, index, size
        self.arch = rootfs.arch_of(kind)
        self.address = lab.address(index)
        self.folder = lab.path("hosts", name)
        self.unit = lab.prefix + name  # its namespace and its cgroup
        self.disk, self.root, self.console = (
            os.path.join(self.folder, part) for part in ("disk.ext4", "root", "console.log")
        )

    # -- what is known ------------------------------------------------------------------------------------------------

    def save(self) -> None:
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, "host.json"), "w") as file:
            json.dump({"kind": self.kind, "index": self.index, "size": self.size}, file)

    def running(self) -> bool:
        return bool(cgroups.processes(self.unit))

    def ready(self) -> bool:
        """sshd answers, and logins are let in."""
        leader = self.leader()
        if (
            leader is None
            or os.path.exists(f"/proc/{leader}/root/run/nologin")
            or not os.path.exists(f"/proc/{leader}/root/run/systemd/system")
        ):
            return False
        return answers(self.address)

    def leader(self) -> int | None:
        """The pid, on this machine, of the host's first process: the child of nspawn."""
        try:
            with open(os.path.join(self.folder, "nspawn.pid")) as file:
                nspawn = int(file.read())
            with open(f"/proc/{nspawn}/task/{nspawn}/children") as file:
                children = file.read().split()
        except (OSError, ValueError):
            return None
        return int(children[0]) if children and nspawn in cgroups.processes(self.unit) else None

    # -- what can be done ---------------------------------------------------------------------------------------------

    def create(self) -> None:
        """A fresh disk with the host's name, keys and addresses; the network around it."""
        self.save()
        self.fresh_disk()
        network.connect(self.lab, self.index, self.unit)

    def fresh_disk(self) -> None:
        self.new_disk(rootfs.template(self.kind))
        if self.size != rootfs.TEMPLATE_SIZE:
            resize(self.disk, self.size)
        self.mount()
        rootfs.write(self.root, "etc/hostname", f"{self.name}\n")
        rootfs.write(self.root, "etc/hosts", f"127.0.0.1 localhost\n{self.address} {self.name}\n")
        self.give_keys()

    def new_disk(self, source: str) -> None:
        """Always a new file: were the old one written over, and its last mount not quite gone, the next mount would find
        the kernel's memory of the old disk."""
        run("cp", "--sparse=always", source, f"{self.disk}.part")
        os.rename(f"{self.disk}.part", self.disk)

    def give_keys(self) -> None:
        """The host's own ssh key outlives a reset; the lab's key opens root and ops."""
        key = os.path.join(self.folder, "ssh_host_ed25519_key")
        if not os.path.exists(key):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", key)
        for suffix, mode in (("", 0o600), (".pub", 0o644)):
            target = os.path.join(self.root, f"etc/ssh/ssh_host_ed25519_key{suffix}")
            shutil.copyfile(key + suffix, target)
            os.chmod(target, mode)
        for home in ("root", "home/ops"):
            folder, owner = os.path.join(self.root, home), os.stat(os.path.join(self.root, home))
            rootfs.write(folder, ".ssh/authorized_keys", read(f"{self.lab.key}.pub"), mode=0o600)
            os.chmod(os.path.join(folder, ".ssh"), 0o700)
            for path in (".ssh", ".ssh/authorized_keys"):
                os.chown(os.path.join(folder, path), owner.st_uid, owner.st_gid)

    def mount(self) -> None:
        os.makedirs(self.root, exist_ok=True)
        if not os.path.ismount(self.root):
            # a power cut here loses no page of this machine's memory, so a flush of its real disk buys nothing and costs much
            run("mount", "-o", "loop,nobarrier", self.disk, self.root)

    def boot(self) -> None:
        """Start the host; returns once it is asked to start. `wait` waits for ssh."""
        if self.running():
            return
        if self.arch == "arm64":
            arm64.register()
        network.forget(self.unit)
        network.connect(self.lab, self.index, self.unit)
        self.mount()
        cgroups.remove(self.unit)
        entries = cgroups.create(self.unit)
        join = "".join(f"echo 0 > {shlex.quote(entry)}\n" for entry in entries)
        environment = dict(
            os.environ,
            SYSTEMD_NSPAWN_API_VFS_WRITABLE="1",  # /proc/sys and /sys can be written: kubelet, kube-proxy
            SYSTEMD_SECCOMP="0",  # no filter by nspawn: runc needs keyctl, bpf, mount
            SYSTEMD_NSPAWN_LOCK="0",
        )
        command = [
            "systemd-nspawn",
            "--quiet",
            "--register=no",
            "--keep-unit",
            f"--directory={self.root}",
            f"--machine={self.name}",
            f"--network-namespace-path=/run/netns/{self.unit}",
            "--capability=all",
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            "--notify-ready=no",
            "--bind=/dev/kmsg",
            "--bind=/dev/fuse",
            "--console=read-only",
            "/usr/lib/eggo-lab/init",
        ]
        with open(self.console, "wb") as console:
            started = subprocess.Popen(
                ["/bin/sh", "-ec", f"{join}exec {shlex.join(command)}"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        with open(os.path.join(self.folder, "nspawn.pid"), "w") as file:
            file.write(str(started.pid))

    def wait(self) -> None:
        """Until ssh lets people in."""
        started, patience = time.monotonic(), BOOT_PATIENCE[self.kind]
        while not self.ready():
            if not self.running() and time.monotonic() - started > 2:
                raise LabError(f"host `{self.name}` ended while it booted", hint=f"see {self.console}")
            if time.monotonic() - started > patience:
                raise LabError(f"host `{self.name}` did not open ssh within {patience} s", hint=f"see {self.console}")
            time.sleep(0.1)
        say(f"{self.name} ({self.kind}) at {self.address}: up")

    def crash(self) -> None:
        """A power cut: every process dies at once, the disk stays."""
        cgroups.kill(self.unit)

    def reset(self) -> None:
        """A power cut, and the disk as new; nothing of earlier faults stays."""
        self.crash()
        self.unmount()
        self.fresh_disk()

    def remove(self) -> None:
        self.crash()
        self.unmount()
        network.disconnect(self.lab, self.index, self.unit)
        cgroups.remove(self.unit)
        shutil.rmtree(self.folder, ignore_errors=True)

    def unmount(self) -> None:
        if os.path.ismount(self.root):
            # a process that was just killed may hold the mount for a moment
            for _ in range(200):
                if succeeds("umount", self.root):
                    return
                time.sleep(0.05)
            run("umount", "--lazy", self.root)

    def inside(self, script: str) -> None:
        """Run a script in the host's mounts, as the machine's root."""
        leader = self.leader()
        if leader is None:
            raise LabError(f"host `{self.name}` is off", hint=f"scripts/lab boot {self.name}")
        run("nsenter", "--target", leader, "--mount", "--", "/bin/sh", "-ec", script)

    def ssh(self, *words: str) -> list[str]:
        return ["ssh", "-F", self.lab.ssh_config, self.name, *words]


def load(lab: Lab) -> list[Host]:
    """The hosts of a lab, as their folders tell."""
    hosts, folder = [], lab.path("hosts")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        try:
            facts = json.loads(read(os.path.join(folder, name, "host.json")))
        except (OSError, ValueError):
            continue  # a host whose creation was cut short has no address yet
        hosts.append(host_of(lab, name, facts["kind"], facts["index"], facts["size"]))
    return sorted(hosts, key=lambda host: host.index)


def host_of(lab: Lab, name: str, kind: str, index: int, size: str) -> Host:
    if kind.startswith("vm"):
        from .vm import Machine

        return Machine(lab, name, kind, index, size)
    return Host(lab, name, kind, index, size)


def answers(address: str, port: int = 22) -> bool:
    """Whether an ssh server greets us."""
    try:
        with socket.create_connection((address, port), timeout=1) as connection:
            connection.settimeout(2)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def resize(disk: str, size: str) -> None:
    subprocess.run(["e2fsck", "-fp", disk], capture_output=True)  # its exit code says what it corrected
    run("resize2fs", disk, size)
    os.truncate(disk, rootfs.gigabytes(size))


def read(path: str) -> str:
    with open(path) as file:
        return file.read()
