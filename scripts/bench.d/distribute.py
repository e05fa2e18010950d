"""Distributing a bundle of two archs to sshd targets on loopback, against scp and rsync of the whole tarball.
A target gets what its arch needs, which is half of the bundle; every other target is arm64."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench import Bench

TARGETS = [1, 4, 8]
# Enough to show that memory does not grow with them; each gets little.
MANY = 200
MANY_MIB = 4
PIECE = 1 << 20
ARCHS = ["amd64", "arm64"]


def rows(bench: Bench) -> None:
    wanted = bench.options.only
    if wanted and not any(wanted in name for name in names()):
        return
    if not bench.need("scp", "rsync", "ssh-keygen", "unshare", "tar"):
        return
    if os.geteuid() != 0 or not Path("/usr/sbin/sshd").exists():
        bench.skip("distribute needs root and sshd")
        return
    examples = bench.programs() / "examples"
    pack, program = examples / "pack", examples / "distribute"
    farm = Farm(bench.work / "targets")
    try:
        if not wanted or any(wanted in name for name in names()[:-1]):
            load = Load(bench, pack, "distribute", bench.options.size)
            few_rows(bench, program, farm, load)
        many_row(bench, program, farm, Load(bench, pack, "distribute-many", MANY_MIB))
    finally:
        farm.stop()


def names() -> list[str]:
    few = [f"distribute to {count}" for count in TARGETS] + [f"distribute to {count}, rsync" for count in TARGETS]
    return [*few, unpacked_name(), again_name(), many_name()]


def again_name() -> str:
    return f"distribute again to {max(TARGETS)}"


def unpacked_name() -> str:
    return f"distribute to {max(TARGETS)}, unpacked"


def many_name() -> str:
    return f"distribute to {MANY} sessions"


def few_rows(bench: Bench, program: Path, farm: Farm, load: Load) -> None:
    for count in TARGETS:
        targets = farm.first(count)
        ours = f"{farm.empty(targets)}; {load.sent(program, farm, targets)}"
        scp = f"{farm.empty(targets)}; {farm.each(targets, farm.scp(load.bundle))}"
        rsync = f"{farm.empty(targets)}; {farm.each(targets, farm.rsync(load.bundle))}"
        bench.row(f"distribute to {count}", against="`scp` of the bundle", ours=ours, theirs=scp, limit=0.5)
        bench.row(f"distribute to {count}, rsync", against="`rsync` of the bundle", ours=ours, theirs=rsync, limit=0.5)
    # Ours is there unpacked and verified; theirs has only come: for comparison.
    unpacked = f"{scp}; {farm.each(targets, farm.unpack())}"
    bench.row(unpacked_name(), against="`scp` and `tar xzf`", ours=ours, theirs=unpacked, limit=None)

    def to(count: int) -> str:
        return f"{farm.empty(farm.first(count))}; {load.sent(program, farm, farm.first(count))}"

    bench.growth("twice the nodes: distribute", to(TARGETS[-2]), to(TARGETS[-1]))
    targets = farm.first(max(TARGETS))
    if bench.wanted(again_name()):
        subprocess.run(f"{farm.empty(targets)}; {load.sent(program, farm, targets)}", shell=True, check=True)
        # Everything is there: two seconds are the limit, whatever others would take.
        again = load.sent(program, farm, targets, again=True)
        bench.row(again_name(), against="two seconds", ours=again, theirs="sleep 2", limit=1)
    subprocess.run(farm.empty(targets), shell=True, check=True)


def many_row(bench: Bench, program: Path, farm: Farm, load: Load) -> None:
    if not bench.wanted(many_name()):
        return
    targets = farm.first(MANY)
    ours = f"{farm.empty(targets)}; {load.sent(program, farm, targets)}"
    scp = f"{farm.empty(targets)}; {farm.each(targets, farm.scp(load.bundle))}"
    bench.row(many_name(), against="`scp` of the bundle", ours=ours, theirs=scp, limit=0.5)


class Load:
    """A bundle of bytes that do not compress, half of them for each arch."""

    def __init__(self, bench: Bench, pack: Path, name: str, mib: int) -> None:
        payload = bench.work / name
        pieces = max(1, (mib << 20) // PIECE // len(ARCHS))
        for arch in ARCHS:
            (payload / arch).mkdir(parents=True)
            for number in range(pieces):
                (payload / arch / f"{number:04}").write_bytes(os.urandom(PIECE))
        self.size = pieces * PIECE  # for each arch
        self.bundle = bench.work / f"{name}.tar.gz"
        subprocess.run([pack, "index", payload, self.bundle], check=True)
        subprocess.run([pack, "seal", payload, self.bundle], check=True, stderr=subprocess.DEVNULL)
        shutil.rmtree(payload)

    def sent(self, program: Path, farm: Farm, targets: list[Target], again: bool = False) -> str:
        """Our command; it fails unless it sent just the bytes that the targets lack."""
        ports = " ".join(f"{ARCHS[number % 2]}:{target.port}" for number, target in enumerate(targets))
        lacking = 0 if again else self.size * len(targets)
        return f'[ "$({program} {self.bundle} {farm.key} {ports})" = {lacking} ]'


class Farm:
    """Targets, made when they are first asked for; one key opens them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.targets: list[Target] = []
        folder.mkdir(parents=True)
        for name in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        self.key = folder / "user_key"
        options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o Compression=no"
        self.options = f"-i {self.key} {options}"

    def first(self, count: int) -> list[Target]:
        while len(self.targets) < count:
            self.targets.append(Target(self.folder, len(self.targets)))
        return self.targets[:count]

    def empty(self, targets: list[Target]) -> str:
        return "rm -rf " + " ".join(f"{shlex.quote(str(target.store))}/*" for target in targets)

    def each(self, targets: list[Target], command: Callable[[Target], str]) -> str:
        """The same on all targets, up to 16 at the same time; fails if one fails."""
        lines = "".join(f"{shlex.quote(command(target))} " for target in targets)
        return f"printf '%s\\0' {lines} | xargs -0 -P 16 -I LINE sh -c LINE"

    def scp(self, bundle: Path) -> Callable[[Target], str]:
        return lambda target: f"scp -q {self.options} -P {target.port} {bundle} root@127.0.0.1:{target.store}/"

    def rsync(self, bundle: Path) -> Callable[[Target], str]:
        return lambda target: f"rsync -W -e 'ssh {self.options} -p {target.port}' {bundle} root@127.0.0.1:{target.store}/"

    def unpack(self) -> Callable[[Target], str]:
        return lambda target: f"ssh {self.options} -p {target.port} root@127.0.0.1 'cd {target.store} && tar xzf *.tar.gz'"

    def stop(self) -> None:
        for target in self.targets:
            target.process.terminate()
        for target in self.targets:
            target.process.wait()


class Target:
    """An sshd with its own view of the installer's folder."""

    def __init__(self, keys: Path, number: int) -> None:
        folder = keys / str(number)
        self.store = folder / "eggo"
        self.store.mkdir(parents=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (folder / "config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {keys}/host_key\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {keys}/user_key.pub\nPermitRootLogin yes\nStrictModes no\nLogLevel ERROR\n"
            "Subsystem sftp internal-sftp\n"
        )
        for needed in ("/run/sshd", "/var/lib/eggo"):
            os.makedirs(needed, exist_ok=True)
        # A home without start-up files: what this machine's shell does there is not ours to measure.
        script = (
            f"mount --make-rprivate / && mount --bind {self.store} /var/lib/eggo && mount -t tmpfs none /root "
            f"&& exec /usr/sbin/sshd -D -f {folder}/config"
        )
        self.process = subprocess.Popen(["unshare", "-m", "sh", "-c", script])
        for _ in range(500):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError("sshd does not start")
