"""What can go wrong with a host, and setting it right: cut and slow links, full and read-only disks, wrong clocks.

`heal` undoes all of it, and does nothing to a host that is well.
"""

import glob
import os
import re
import subprocess
import sys
import time
from typing import BinaryIO

from . import cgroups, network
from .hosts import Host
from .process import LabError, run, say, succeeds

FILLING = "var/tmp/.lab-fill"
# before the real one in root's PATH
DATE = "usr/local/sbin/date"


# -- the link -----------------------------------------------------------------------------------------------------------


def cut(host: Host) -> None:
    """Pull the plug of the network. Nothing tells the peers: connections hang."""
    run("ip", "link", "set", network.link_of(host.lab, host.index), "down")


def slow(host: Host, delay: float = 0.0, loss: float = 0.0, rate: int = 0) -> None:
    """Put a slow wire between the host and the bridge: milliseconds, percent and bytes a second, each way."""
    unslow(host)
    link = network.link_of(host.lab, host.index)
    near, far = f"{link}x", f"{link}y"
    run("ip", "link", "add", far, "type", "veth", "peer", "name", near)
    # this machine must not answer on the ends that only the wire may use
    for end in (link, near):
        run("ip", "link", "set", end, "arp", "off", "addrgenmode", "none")
    run("ip", "link", "set", far, "master", host.lab.bridge, "up")
    run("ip", "link", "set", near, "up")
    run("ip", "link", "set", link, "nomaster")
    wire = subprocess.Popen(
        [sys.executable, "-m", "lab.wire", link, near, f"--delay={delay}", f"--loss={loss}", f"--rate={rate}"],
        cwd=os.path.dirname(os.path.dirname(os.path.realpath(__file__))),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=open(os.path.join(host.folder, "wire.log"), "w"),
        start_new_session=True,
    )
    for entry in cgroups.create(wire_group(host)):
        with open(entry, "w") as file:
            file.write(str(wire.pid))
    if wire.stdout is None or wire.stdout.readline() != b"carrying\n":
        unslow(host)
        raise LabError(f"the slow wire of `{host.name}` did not start", hint=f"see {host.folder}/wire.log")


def unslow(host: Host) -> None:
    cgroups.kill(wire_group(host))
    cgroups.remove(wire_group(host))
    link = network.link_of(host.lab, host.index)
    succeeds("ip", "link", "delete", f"{link}y")
    succeeds("ip", "link", "set", link, "arp", "on", "master", host.lab.bridge)


def wire_group(host: Host) -> str:
    return f"{host.unit}.wire"


def rate_of(text: str) -> int:
    """`100k`, `2M` (bytes a second) to a number."""
    found = re.fullmatch(r"(\d+)([kM]?)", text)
    if not found:
        raise LabError(f"`{text}` is no rate", hint="write bytes a second: 100k or 2M")
    return int(found[1]) * {"": 1, "k": 1000, "M": 1000000}[found[2]]


# -- the disk -----------------------------------------------------------------------------------------------------------


def fill(host: Host, leave: int = 0) -> None:
    """Use up the disk, but for `leave` bytes."""
    if not host.shares_kernel:
        host.inside(
            f"sync; free=$(($(stat -f -c '%a * %S' /) - {leave} - 8388608)); "
            f"[ $free -le 0 ] || fallocate -l $free /{FILLING}0; cat /dev/zero > /{FILLING}1 2>/dev/null || true"
        )
        return
    run("sync", "--file-system", host.root)
    free = os.statvfs(host.root)
    size = free.f_bavail * free.f_frsize - leave
    if size > 0:
        path = os.path.join(host.root, FILLING)
        number = len(glob.glob(f"{path}*"))
        with open(f"{path}{number}", "wb") as file:
            take(file, size)


def take(file: BinaryIO, size: int) -> None:
    """As much of `size` as there is: the file system needs some blocks to note which ones it gave away."""
    step, offset = size, 0
    while step >= 4096:
        try:
            os.posix_fallocate(file.fileno(), offset, step)
            offset += step
        except OSError:
            file.truncate(offset)
        step = min(step // 2, size - offset)


def readonly(host: Host, path: str | None = None) -> None:
    """Without a path: the disk reports an error and the kernel makes the file system read-only, as a dying disk does.
    With a path: only that folder, and nothing else happens."""
    if path is not None:
        host.inside(f"mkdir -p '{path}' && mount --bind '{path}' '{path}' && mount -o remount,bind,ro '{path}'")
        note(host, "readonly-paths", path)
        return
    if not host.shares_kernel:
        note(host, "disk-error", "1")
        host.inside("mount -o remount,errors=remount-ro / && echo lab > /sys/fs/ext4/vda/trigger_fs_error")
        return
    source = run("findmnt", "--noheadings", "--output", "SOURCE", host.root).strip()
    trigger = f"/sys/fs/ext4/{os.path.basename(source)}/trigger_fs_error"
    if not os.path.exists(trigger):
        raise LabError("this kernel cannot report a disk error", hint="use --path to make one folder read-only")
    run("mount", "-o", "remount,errors=remount-ro", host.root)
    with open(trigger, "w") as file:
        file.write("lab")
    note(host, "disk-error", "1")


# -- the clock ----------------------------------------------------------------------------------------------------------


def skew(host: Host, seconds: int) -> None:
    """The host's clock is wrong by that much. A virtual machine has its own; the others share this machine's, of which no
    namespace has another wall clock, so that only their `date` tells the wrong time."""
    if not host.shares_kernel:
        host.inside(f"date -s @$(($(date +%s) + {seconds}))")
        note(host, "skewed", "1")
        return
    path = os.path.join(host.root, DATE)
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\nexec /usr/bin/date --date="@$(($(/usr/bin/date +%s) + {seconds}))" "$@"\n')
    os.chmod(path, 0o755)


def unskew(host: Host) -> None:
    if host.shares_kernel:
        host.inside(f"rm -f /{DATE}")
    elif noted(host, "skewed"):
        host.inside(f"date -s @{int(time.time())}")
        forget(host, "skewed")


# -- setting it right ---------------------------------------------------------------------------------------------------


def heal(host: Host) -> None:
    unslow(host)
    run("ip", "link", "set", network.link_of(host.lab, host.index), "up")
    if noted(host, "disk-error"):
        say(f"{host.name}: checking the disk and booting again")
        host.crash()
        host.unmount()
        host.new_disk(host.disk)
        subprocess.run(["e2fsck", "-fy", host.disk], capture_output=True)  # its exit code says what it corrected
        forget(host, "disk-error")
        forget(host, "readonly-paths")
        host.boot()
        host.wait()
    if not host.running():
        return
    host.inside(f"rm -f /{FILLING}*")
    unskew(host)
    for path in noted(host, "readonly-paths"):
        host.inside(f"umount '{path}' || true")
    forget(host, "readonly-paths")


def clear(host: Host) -> None:
    """Forget every fault of a host whose disk is about to be replaced."""
    unslow(host)
    succeeds("ip", "link", "set", network.link_of(host.lab, host.index), "up")  # a host that never came up has no link
    forget(host, "disk-error")
    forget(host, "readonly-paths")
    forget(host, "skewed")


def note(host: Host, what: str, value: str) -> None:
    with open(os.path.join(host.folder, what), "a") as file:
        file.write(value + "\n")


def noted(host: Host, what: str) -> list[str]:
    path = os.path.join(host.folder, what)
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return file.read().split()


def forget(host: Host, what: str) -> None:
    path = os.path.join(host.folder, what)
    if os.path.exists(path):
        os.remove(path)
