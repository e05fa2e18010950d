"""The whole lab: which hosts it has, bringing it up, saying how it is, and leaving nothing behind.

`down` does not trust what was written down: it asks the kernel for everything that bears the lab's number, so that it also
cleans up after scripts that were killed.
"""

import glob
import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import arm64, cgroups, hosts, machine, network, rootfs
from .process import LabError, need, run, say, succeeds
from .settings import CACHE, Lab

DEFAULT_HOSTS = ["deb-amd64", "deb-arm64", "rpm-amd64"]
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")


# -- which lab ----------------------------------------------------------------------------------------------------------


def find(name: str) -> Lab | None:
    """A lab that exists, or None."""
    try:
        return Lab(name, int(hosts.read(os.path.join(CACHE, "labs", name, "number"))))
    except (OSError, ValueError):
        return None


def existing(name: str) -> Lab:
    lab = find(name)
    if lab is None:
        others = ", ".join(f"`{other}`" for other in names()) or "none"
        raise LabError(
            f"there is no lab `{name}` (there is: {others})",
            hint="scripts/lab up, or choose one with --lab or EGGO_LAB",
        )
    return lab


def names() -> list[str]:
    return sorted(os.path.basename(os.path.dirname(path)) for path in glob.glob(os.path.join(CACHE, "labs", "*", "number")))


def claim(name: str) -> Lab:
    """The lab of this name, made if need be: the lowest number that neither a lab nor the kernel uses."""
    if not NAME.fullmatch(name):
        raise LabError(f"`{name}` is no name for a lab", hint="use lowercase letters, digits and `-`")
    with rootfs.locked("labs"):
        lab = find(name)
        if lab is None:
            taken = {other.number for other in map(find, names()) if other}
            number = next(
                number for number in range(256) if number not in taken and not succeeds("ip", "link", "show", f"lab{number}")
            )
            machine.remember()
            lab = Lab(name, number)
            os.makedirs(lab.folder, exist_ok=True)
            with open(lab.path("number"), "w") as file:
                file.write(str(number))
    if not os.path.exists(lab.key):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", lab.key)
    return lab


# -- up and down --------------------------------------------------------------------------------------------------------


def up(name: str, wanted: list[str]) -> Lab:
    """Bring up the wanted hosts, or all that the lab has: what runs already stays, what is missing is made."""
    prepare_machine()
    lab = claim(name)
    network.up(lab, opened=is_open(lab))
    fleet = assign(lab, wanted) if wanted else hosts.load(lab) or assign(lab, DEFAULT_HOSTS)
    for kind in dict.fromkeys(host.kind for host in fleet):
        rootfs.template(kind)
    for host in fleet:
        if not os.path.exists(host.disk):
            host.create()
    write_ssh_files(lab)
    for host in fleet:
        host.boot()
    with ThreadPoolExecutor(len(fleet) or 1) as pool:
        for _ in pool.map(lambda host: host.wait(), fleet):
            pass
    return lab


def prepare_machine() -> None:
    if os.geteuid() != 0:
        raise LabError("the lab needs root: namespaces, mounts and cgroups", hint="run it as root or with sudo")
    for program, package in (
        ("systemd-nspawn", "systemd-container"),
        ("nft", "nftables"),
        ("ip", "iproute2"),
        ("mke2fs", "e2fsprogs"),
        ("ssh", "openssh-client"),
    ):
        need(program, package)


def assign(lab: Lab, wanted: list[str]) -> list[hosts.Host]:
    """`[NAME=]KIND[:SIZE]`, or `3xKIND`, to hosts with addresses; hosts that exist keep theirs."""
    known = {host.name: host for host in hosts.load(lab)}
    fleet = []
    for text in wanted:
        name, kind, size, count = parse(text)
        if name is None and sum(1 for other in wanted if parse(other)[:2] == (None, kind)) > 1:
            raise LabError(f"`{kind}` is asked for twice", hint=f"write 2x{kind}, or give names: a={kind},b={kind}")
        for number in range(1, count + 1):
            chosen = name or (kind if number == 1 else f"{kind}-{number}")
            if chosen not in known:
                index = next(
                    index for index in range(hosts.FIRST_INDEX, 250) if index not in {host.index for host in known.values()}
                )
                known[chosen] = hosts.host_of(lab, chosen, kind, index, size)
            elif known[chosen].kind != kind:
                raise LabError(
                    f"host `{chosen}` exists and is a {known[chosen].kind}",
                    hint="choose another name, or scripts/lab down first",
                )
            fleet.append(known[chosen])
    return fleet


def parse(text: str) -> tuple[str | None, str, str, int]:
    found = re.fullmatch(r"(?:(?P<name>[^=:]+)=|(?P<count>\d+)x)?(?P<kind>[^=:]+)(?::(?P<size>.+))?", text)
    if not found or found["kind"] not in rootfs.KINDS:
        raise LabError(
            f"`{text}` is no host",
            hint=f"write [NAME=]KIND[:SIZE] or 3xKIND, with KIND one of {', '.join(rootfs.KINDS)}",
        )
    if found["name"] and not NAME.fullmatch(found["name"]):
        raise LabError(f"`{found['name']}` is no name for a host", hint="use lowercase letters, digits and `-`")
    size = found["size"] or rootfs.TEMPLATE_SIZE
    rootfs.gigabytes(size)
    return found["name"], found["kind"], size, int(found["count"] or 1)


def host(lab: Lab, name: str) -> hosts.Host:
    for candidate in hosts.load(lab):
        if candidate.name == name:
            return candidate
    known = ", ".join(f"`{candidate.name}`" for candidate in hosts.load(lab)) or "none"
    raise LabError(f"there is no host `{name}` in lab `{lab.name}` (there is: {known})")


def write_ssh_files(lab: Lab) -> None:
    """known_hosts, and an ssh_config with which plain `ssh -F` knows every host by name."""
    known, config = [], []
    for one in hosts.load(lab):
        key = " ".join(hosts.read(os.path.join(one.folder, "ssh_host_ed25519_key.pub")).split()[:2])
        known.append(f"{one.address},{one.name} {key}\n")
        config.append(f"Host {one.name}\n  HostName {one.address}\n  HostKeyAlias {one.name}\n")
    config.append(
        f"Host *\n  User root\n  IdentityFile {lab.key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {lab.known_hosts}\n"
        "  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n  ConnectTimeout 10\n"
    )
    for path, lines in ((lab.known_hosts, known), (lab.ssh_config, config)):
        with open(path, "w") as file:
            file.writelines(lines)


def is_open(lab: Lab) -> bool:
    return os.path.exists(lab.path("upstream", "open"))


def down(name: str) -> None:
    """Remove all that bears the lab's number, then the lab. Before it has a number, a lab has made nothing but its folder."""
    if not NAME.fullmatch(name):
        raise LabError(f"`{name}` is no name for a lab", hint="use lowercase letters, digits and `-`")
    lab = find(name)
    if lab is None:
        forget(name)
        return
    for group in cgroups.named(lab.prefix):
        cgroups.kill(group)
    for mount in reversed(mounts_below(lab.folder)):
        succeeds("umount", mount) or run("umount", "--lazy", mount)
    release_loops(lab.folder)
    network.down(lab)
    for group in cgroups.named(lab.prefix):
        cgroups.remove(group)
    forget(name)
    say(f"lab `{name}`: gone")


def forget(name: str) -> None:
    """The lab's folder; and with the last lab, what they all shared on this machine."""
    with rootfs.locked("labs"):
        shutil.rmtree(os.path.join(CACHE, "labs", name), ignore_errors=True)
        if not names():
            arm64.unregister()
            machine.restore()


def mounts_below(folder: str) -> list[str]:
    with open("/proc/self/mounts") as file:
        points = [line.split()[1].encode().decode("unicode_escape") for line in file]
    return [point for point in points if point.startswith(os.path.realpath(folder) + "/")]


def release_loops(folder: str) -> None:
    """Loop devices whose file lies below a folder; a mount lets go of its own, a killed script may not."""
    listed = json.loads(run("losetup", "--json", "--list") or '{"loopdevices": []}')
    for device in listed["loopdevices"]:
        if (device.get("back-file") or "").startswith(os.path.realpath(folder) + "/"):
            succeeds("losetup", "--detach", device["name"])


# -- status -------------------------------------------------------------------------------------------------------------


def describe(lab: Lab) -> dict[str, Any]:
    """All that a program wants to know about a lab."""
    return {
        "lab": lab.name,
        "number": lab.number,
        "network": lab.network,
        "gateway": lab.gateway,
        "key": lab.key,
        "known_hosts": lab.known_hosts,
        "ssh_config": lab.ssh_config,
        "folder": lab.folder,
        "open": is_open(lab),
        "hosts": [describe_host(one) for one in hosts.load(lab)],
    }


def describe_host(one: hosts.Host) -> dict[str, str]:
    state = "off" if not one.running() else "up" if one.ready() else "booting"
    return {
        "name": one.name,
        "kind": one.kind,
        "arch": one.arch,
        "address": one.address,
        "state": state,
        "disk": one.size,
        "console": one.console,
    }


def ssh(lab: Lab, name: str, words: list[str]) -> int:
    return subprocess.call(host(lab, name).ssh(*words))
