"""Packages and sources of Debian, for either arch, without touching the machine's own apt.

An apt state of its own lies in the cache: it follows the machine's Debian mirror, and knows no installed packages.
"""

import contextlib
import fcntl
import glob
import os
import re
import time
from collections.abc import Iterator, Sequence

from .process import LabError, run, say
from .settings import SUITE, cache

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def mirror() -> str:
    """The Debian mirror that this machine uses."""
    for path in (
        sorted(glob.glob("/etc/apt/sources.list.d/*.sources"))
        + ["/etc/apt/sources.list"]
        + sorted(glob.glob("/etc/apt/sources.list.d/*.list"))
    ):
        if os.path.exists(path):
            with open(path) as file:
                found = re.search(r"^(?:URIs:|deb\b(?:\s*\[[^]]*\])?)\s*(https?://\S+/debian)/?(?:\s|$)", file.read(), re.M)
            if found:
                return found[1]
    return "http://deb.debian.org/debian"


@contextlib.contextmanager
def in_turn(folder: str) -> Iterator[None]:
    """One lab at a time in this folder."""
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def replace(path: str, text: str) -> None:
    """Write what is not there yet. Another lab's apt may be reading: it never sees a part of it."""
    if os.path.exists(path):
        with open(path) as file:
            if file.read() == text:
                return
    with open(f"{path}.new", "w") as file:
        file.write(text)
    os.rename(f"{path}.new", path)


class Apt:
    """An apt of its own for one arch. `suites` beyond bookworm itself, `sources` adds deb-src."""

    def __init__(
        self, arch: str = "amd64", suites: Sequence[str] = (SUITE, f"{SUITE}-updates"), sources: bool = False
    ) -> None:
        kind = ("src-" if sources else "") + "-".join(suites)
        self.arch, self.folder = arch, cache("apt", f"{arch}-{kind}")
        for name in ("lists/partial", "cache/archives/partial", "etc"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        self.options = [
            f"-oDir::State={self.folder}",
            f"-oDir::State::lists={self.folder}/lists",
            f"-oDir::State::status={self.folder}/status",
            f"-oDir::Cache={self.folder}/cache",
            f"-oDir::Etc::sourcelist={self.folder}/etc/sources.list",
            "-oDir::Etc::sourceparts=/dev/null",
            f"-oAPT::Architecture={arch}",
            f"-oAPT::Architectures={arch}",
            "-oAcquire::Languages=none",
            "-oAPT::Sandbox::User=root",
            "-oAcquire::Retries=3",
            "-oDPkg::Post-Invoke=",
            "-oAPT::Update::Post-Invoke=",
        ]
        lines = [f"deb{'-src' if sources else ''} [signed-by={KEYRING}] {mirror()} {suite} main" for suite in suites]
        open(os.path.join(self.folder, "status"), "a").close()
        self.update("\n".join(lines) + "\n")

    def update(self, sources: str) -> None:
        """Fetch the lists of `sources` unless they are younger than a day; two labs at once take turns."""
        stamp = os.path.join(self.folder, "updated")
        path = os.path.join(self.folder, "etc/sources.list")
        with in_turn(self.folder):
            replace(path, sources)
            if os.path.exists(stamp) and time.time() - os.path.getmtime(stamp) < 86400:
                return
            run("apt-get", *self.options, "-qq", "update")
            open(stamp, "w").close()

    def download(self, folder: str, *packages: str) -> list[str]:
        """The newest .deb of each package (not its dependencies) into a folder; what is there stays. Returns their paths."""
        os.makedirs(folder, exist_ok=True)
        wanted = {}
        for line in run("apt-get", *self.options, "--print-uris", "download", *packages).splitlines():
            name = line.split()[1]
            wanted[name.split("_")[0]] = os.path.join(folder, name)
        with in_turn(folder):
            missing = [package for package, path in wanted.items() if not os.path.exists(path)]
            if missing:
                run("apt-get", *self.options, "-qq", "download", *missing, cwd=folder)
        return [wanted[package] for package in packages]

    def source(self, package: str, folder: str) -> str:
        """A source package, unpacked under `folder`. Returns the unpacked folder."""
        os.makedirs(folder, exist_ok=True)
        unpacked = [
            path
            for path in glob.glob(os.path.join(folder, f"{package}-*"))
            if os.path.isdir(path) and not path.endswith(".part")
        ]
        if not unpacked:
            say(f"fetching the source of {package}")
            run("apt-get", *self.options, "-qq", "--download-only", "source", package, cwd=folder)
            dsc = glob.glob(os.path.join(folder, f"{package}_*.dsc"))
            if len(dsc) != 1:
                raise LabError(f"the source of `{package}` was not found", hint="is the Debian mirror reachable?")
            part = os.path.join(folder, f"{package}-source.part")
            run("rm", "-rf", part)
            run("dpkg-source", "--no-check", "-x", dsc[0], part, cwd=folder)
            os.rename(part, os.path.join(folder, f"{package}-source"))
            unpacked = [os.path.join(folder, f"{package}-source")]
        return unpacked[0]
