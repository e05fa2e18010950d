"""A cgroup per host in every hierarchy of the machine; it is also how we find all of a host's processes."""

import os
import signal
import time

from .process import LabError

ROOT = "/sys/fs/cgroup"


def hierarchies() -> list[str]:
    """Where cgroups are mounted: one place on a unified machine, one per controller on others."""
    with open("/proc/mounts") as file:
        mounts = [line.split() for line in file]
    return [mount[1] for mount in mounts if mount[2] in ("cgroup", "cgroup2") and (mount[1] + "/").startswith(ROOT + "/")]


def create(name: str) -> list[str]:
    """Make the cgroup everywhere. Returns the files to write a pid to."""
    entries = []
    for hierarchy in hierarchies():
        folder = os.path.join(hierarchy, name)
        os.makedirs(folder, exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # a v1 cpuset takes no process before it has both
            path = os.path.join(folder, setting)
            if os.path.exists(path) and os.path.exists(os.path.join(hierarchy, setting)):
                with open(os.path.join(hierarchy, setting)) as source, open(path, "w") as target:
                    target.write(source.read())
        entries.append(os.path.join(folder, "cgroup.procs"))
    return entries


def named(prefix: str) -> list[str]:
    """The names of all cgroups with this prefix."""
    names: set[str] = set()
    for hierarchy in hierarchies():
        names.update(
            name for name in os.listdir(hierarchy) if name.startswith(prefix) and os.path.isdir(os.path.join(hierarchy, name))
        )
    return sorted(names)


def processes(name: str) -> set[int]:
    """Every process below this cgroup, in any hierarchy."""
    found: set[int] = set()
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(os.path.join(hierarchy, name)):
            try:
                with open(os.path.join(folder, "cgroup.procs")) as file:
                    found.update(int(line) for line in file)
            except OSError:
                continue  # removed meanwhile
    return found - {0}


def kill(name: str, patience: float = 20.0) -> None:
    """Kill -9 everything below this cgroup and wait until it is gone."""
    end = time.monotonic() + patience
    while alive := processes(name):
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > end:
            raise LabError(f"processes of `{name}` do not die: {sorted(alive)}")
        time.sleep(0.02)


def remove(name: str) -> None:
    """Remove the cgroup everywhere; it must hold no process any more."""
    for hierarchy in hierarchies():
        for folder, _, _ in sorted(os.walk(os.path.join(hierarchy, name)), reverse=True):
            for _ in range(50):
                try:
                    os.rmdir(folder)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)  # the kernel lets go of the last process a moment after its death
