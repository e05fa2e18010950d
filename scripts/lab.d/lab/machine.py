"""Settings of the whole machine that hosts change because they share its kernel: remembered before the first lab, put back
after the last. (A kubelet sets vm.overcommit_memory and the like; installers set vm.swappiness.) And room for many hosts."""

import json
import os

from .settings import cache

ROOMS = ("vm", "kernel", "fs")  # what lies under net belongs to each host's own namespace
# all hosts count as one user here: each systemd, kubelet and runtime takes of what one user may have
ROOM = {"fs/inotify/max_user_instances": 8192, "fs/inotify/max_user_watches": 1 << 20}
# these change by themselves, or writing them does something
LEFT_OUT = (
    "kernel/random",
    "kernel/ns_last_pid",
    "kernel/seccomp",
    "fs/binfmt_misc",
    "vm/drop_caches",
    "vm/compact_memory",
    "kernel/sysrq",
    "fs/file-nr",
    "fs/inode",
    "fs/dentry",
)


def remember() -> None:
    """Before anything is changed; then there is room."""
    path = cache("labs", "sysctl.json")
    if not os.path.exists(path):
        with open(path, "w") as file:
            json.dump(snapshot(), file)
    for name, least in ROOM.items():
        path = os.path.join("/proc/sys", name)
        with open(path) as file:
            enough = int(file.read()) >= least
        if not enough:
            with open(path, "w") as file:
                file.write(str(least))


def restore() -> None:
    path = cache("labs", "sysctl.json")
    if not os.path.exists(path):
        return
    with open(path) as file:
        before = json.load(file)
    now = snapshot()
    for name, value in before.items():
        if name in now and now[name] != value:
            try:
                with open(os.path.join("/proc/sys", name), "w") as file:
                    file.write(value)
            except OSError:
                pass  # the kernel's own counters cannot be written
    os.remove(path)


def snapshot() -> dict[str, str]:
    values = {}
    for room in ROOMS:
        for folder, _, files in os.walk(os.path.join("/proc/sys", room)):
            for name in files:
                path = os.path.join(folder, name)
                key = os.path.relpath(path, "/proc/sys")
                if key.startswith(LEFT_OUT) or not os.stat(path).st_mode & 0o200:
                    continue
                try:
                    with open(path) as file:
                        values[key] = file.read()
                except (OSError, UnicodeDecodeError):
                    continue
    return values
