"""Distributing a bundle to 1, 4 and 8 sshd targets on loopback, against scp of the whole tarball and tar."""
import os
import pathlib
import shlex
import socket
import subprocess
import time

TARGETS = [1, 4, 8]


def rows(bench):
    wanted = bench.options.only
    if wanted and wanted not in "distribute" or not bench.need("scp", "ssh-keygen", "unshare", "tar"):
        return
    if os.geteuid() != 0 or not pathlib.Path("/usr/sbin/sshd").exists():
        print("skipped: distribute needs root and sshd")
        return
    pack = bench.build("eggo-bundles", "--example", "pack") / "examples/pack"
    program = bench.build("eggo-install", "--example", "distribute") / "examples/distribute"
    payload = bench.work / "distribute"
    payload.mkdir()
    for number in range(max(1, bench.options.size // 8)):
        (payload / f"{number:04}").write_bytes(os.urandom(8 << 20))
    bundle = bench.work / "distribute.tar.gz"
    subprocess.run([pack, "index", payload, bundle], check=True)
    subprocess.run([pack, "seal", payload, bundle], check=True, stderr=subprocess.DEVNULL)
    farm = bench.work / "targets"
    targets = [Target(farm / str(number)) for number in range(max(TARGETS))]
    try:
        for count in TARGETS:
            chosen = targets[:count]
            ports = " ".join(str(target.port) for target in chosen)
            empty = "; ".join(f"rm -rf {shlex.quote(str(target.store))}/*" for target in chosen)
            key = chosen[0].folder / "user_key"
            for target in chosen[1:]:
                target.trust(key)
            ssh = f"-i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o Compression=no"
            send = " & ".join(f"scp -q {ssh} -P {target.port} {bundle} root@127.0.0.1:{target.store}/" for target in chosen)
            unpack = " & ".join(
                f"ssh {ssh} -p {target.port} root@127.0.0.1 'cd {target.store} && tar xzf *.tar.gz'" for target in chosen
            )
            bench.row(
                f"distribute to {count}",
                ours=f"{empty}; {program} {bundle} amd64 {key} {ports}",
                theirs=f"{empty}; {send} & wait; {unpack} & wait",
                limit=0.5,
            )
    finally:
        for target in targets:
            target.stop()


class Target:
    """An sshd with its own view of the installer's folder."""

    def __init__(self, folder):
        self.folder = folder
        self.store = folder / "eggo"
        self.store.mkdir(parents=True)
        for name in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        (folder / "authorized_keys").write_text((folder / "user_key.pub").read_text())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (folder / "config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {folder}/authorized_keys\nPermitRootLogin yes\nStrictModes no\nLogLevel ERROR\n"
            "Subsystem sftp internal-sftp\n"
        )
        for needed in ("/run/sshd", "/var/lib/eggo"):
            os.makedirs(needed, exist_ok=True)
        script = f"mount --make-rprivate / && mount --bind {self.store} /var/lib/eggo && exec /usr/sbin/sshd -D -f {folder}/config"
        self.process = subprocess.Popen(["unshare", "-m", "sh", "-c", script])
        for _ in range(500):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError("sshd does not start")

    def trust(self, key):
        (self.folder / "authorized_keys").write_text(pathlib.Path(f"{key}.pub").read_text())

    def stop(self):
        self.process.terminate()
        self.process.wait()
