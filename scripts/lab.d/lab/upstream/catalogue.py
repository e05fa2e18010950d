"""Which images the stand-in registry offers, under the names that they have in the world."""

import hashlib
import os
import subprocess
from collections.abc import Iterable

from .. import debian
from ..kubernetes import companions
from ..process import need, run
from ..settings import ARCHS, cache
from .images import Image, Layer, folder, link, program, text

COMPILERS = {"amd64": "gcc", "arm64": "aarch64-linux-gnu-gcc"}
PAUSE = """
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void down(int s) { _exit(0); }
static void reap(int s) { while (waitpid(-1, 0, WNOHANG) > 0); }
int main(void) { signal(SIGINT, down); signal(SIGTERM, down); signal(SIGCHLD, reap); for (;;) pause(); }
"""
RECIPE = 2  # raise it when an image below changes


def images() -> tuple[list[Image], str]:
    """All images, and a digest of what they are made of."""
    pause, busybox = {arch: pause_program(arch) for arch in ARCHS}, {arch: busybox_program(arch) for arch in ARCHS}
    shell = {arch: busybox_layer(path, busybox["amd64"]) for arch, path in busybox.items()}
    offered = [
        Image("pause", tag, {arch: [[program("pause", path)]] for arch, path in pause.items()}, {"Entrypoint": ["/pause"]})
        for tag in ("3.2", "3.10.2")
    ]
    for name in ("library/busybox", "busybox"):
        offered.append(
            Image(name, "1.35", {arch: [layer] for arch, layer in shell.items()}, {"Cmd": ["sh"], "Env": ["PATH=/bin"]})
        )
    offered.append(Image("lab/amd64-only", "1", {"amd64": [shell["amd64"]]}, {"Cmd": ["sh"], "Env": ["PATH=/bin"]}))
    sources = [*pause.values(), *busybox.values()]
    for one in (one for one in companions() if one.name in COMPANIONS):
        name, prefix, entry = COMPANIONS[one.name]
        paths = {arch: one.path(arch) for arch in one.archs()}
        sources += paths.values()
        layers = {arch: [shell[arch], [program(entry, path)]] for arch, path in paths.items()}
        offered.append(
            Image(name, prefix + one.version, layers, {"Entrypoint": [f"/{entry}"], "Env": ["PATH=/bin:/opt/bin"]})
        )
    return offered, digest_of(sources)


# program: its repository, what is before the version in the tag, where the program is
COMPANIONS = {
    "coredns": ("coredns/coredns", "", "coredns"),
    "flanneld": ("flannel/flannel", "v", "opt/bin/flanneld"),
    "flannel": ("flannel/flannel-cni-plugin", "v", "flannel"),
}


def digest_of(paths: Iterable[str]) -> str:
    digest = hashlib.sha256(str(RECIPE).encode())
    for path in paths:
        facts = os.stat(path)
        digest.update(f"{path} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:12]


def pause_program(arch: str) -> str:
    path = cache("upstream", f"pause-{arch}")
    if not os.path.exists(path):
        need(COMPILERS[arch], f"gcc{'-aarch64-linux-gnu' if arch == 'arm64' else ''}")
        run(COMPILERS[arch], "-O2", "-static", "-s", "-x", "c", "-o", f"{path}.part", "-", input=PAUSE)
        os.rename(f"{path}.part", path)
    return path


def busybox_program(arch: str) -> str:
    path = cache("upstream", f"busybox-{arch}", "bin/busybox")
    if not os.path.exists(path):
        (package,) = debian.Apt(arch).download(cache("upstream", "debs", arch), "busybox-static")
        run("dpkg", "-x", package, cache("upstream", f"busybox-{arch}"))
    return path


def busybox_layer(path: str, native: str) -> Layer:
    """busybox with a link for each of its commands; the amd64 one of the same version tells their names."""
    names = subprocess.run([native, "--list"], capture_output=True, text=True, check=True).stdout.split()
    return [
        *(folder(name) for name in ("bin", "etc", "root", "tmp", "var", "opt", "opt/bin")),
        program("bin/busybox", path),
        *(link(f"bin/{name}", "busybox") for name in names if name != "busybox"),
        text("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
        text("etc/group", "root:x:0:\n"),
    ]
