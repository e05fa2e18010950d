"""Where things lie and what a lab id decides.

Everything is kept under one cache folder: images and builds are shared by all labs of this machine, and each lab has a
folder of its own under `labs/`. `EGGO_LAB_CACHE` moves it.
"""

import os

CACHE = os.environ.get("EGGO_LAB_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "eggo-lab"
)
SUITE = "bookworm"
ARCHS = ("amd64", "arm64")


def cache(*parts: str) -> str:
    """A path in the shared cache; its parent exists."""
    path = os.path.join(CACHE, *parts)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def jobs() -> int:
    """How many compilers at once: `EGGO_LAB_JOBS`, else the machine's cores."""
    return int(os.environ.get("EGGO_LAB_JOBS") or os.cpu_count() or 1)


class Lab:
    """One lab. The user chooses its id; its number, the lowest free one, decides every name and address in the kernel."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number
        self.folder = cache("labs", name)
        self.bridge = f"lab{number}"
        self.prefix = f"eggo-lab{number}-"  # of network namespaces and cgroups
        self.table = f"eggo_lab{number}"
        self.gateway = f"10.77.{number}.1"
        self.network = f"10.77.{number}.0/24"
        self.key = os.path.join(self.folder, "id_ed25519")
        self.known_hosts = os.path.join(self.folder, "known_hosts")
        self.ssh_config = os.path.join(self.folder, "ssh_config")

    def address(self, index: int) -> str:
        return f"10.77.{self.number}.{index}"

    def path(self, *parts: str) -> str:
        return os.path.join(self.folder, *parts)
