"""What projects publish on GitHub, laid out as there: etcd, containerd, runc and CNI plugins out of Debian's packages, and
the coredns, etcd and containerd that the lab built. Versions are those of what is really inside."""

import gzip
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable

from .. import debian, kubernetes, rootfs
from ..process import LabError, run, say
from ..settings import ARCHS, cache

SERVER = "github.com"
RECIPE = 1  # raise it when the way of packing changes

# project: the Debian packages that its programs come from; the first one tells the version
PROJECTS = {
    "etcd": ("etcd-server", "etcd-client"),
    "containerd": ("containerd",),
    "runc": ("runc",),
    "plugins": ("containernetworking-plugins",),
}


def folder() -> str:
    """The folder that stands for github.com; made when the cache lacks it."""
    with rootfs.locked("upstream-releases"):
        debs = {arch: packages(arch) for arch in ARCHS}
        own = [one for one in kubernetes.companions() if one.name in OWN]
        inside = [(one.name, one.version, one.archs()) for one in own]
        path = cache(
            "upstream",
            "releases-" + rootfs.digest(RECIPE, sorted(map(str, debs.items())), inside),
        )
        if not os.path.isdir(path):
            say("upstream: packing releases as their projects do")
            part = tempfile.mkdtemp(prefix="releases-", dir=os.path.dirname(path))
            for arch in ARCHS:
                pack(part, arch, debs[arch])
                pack_own(part, arch, own)
            with open(os.path.join(part, "versions.json"), "w") as file:
                json.dump({project: version(paths[0]) for project, paths in debs[ARCHS[0]].items()}, file)
            os.chmod(part, 0o755)
            os.rename(part, path)
    return path


def versions(path: str) -> dict[str, str]:
    """The version of each project's release in a folder made here."""
    with open(os.path.join(path, "versions.json")) as file:
        return json.load(file)


def packages(arch: str) -> dict[str, list[str]]:
    names = [name for debs in PROJECTS.values() for name in debs]
    found = dict(zip(names, debian.Apt(arch).download(cache("upstream", "debs", arch), *names), strict=True))
    return {project: [found[name] for name in debs] for project, debs in PROJECTS.items()}


def version(deb: str) -> str:
    found = re.match(r"[\d.]*\d", os.path.basename(deb).split("_")[1].replace("%3a", ":").split(":")[-1])
    if found is None:
        raise LabError(f"`{deb}` has no version in its name")
    return found[0]


def pack(root: str, arch: str, debs: dict[str, list[str]]) -> None:
    number = {project: version(paths[0]) for project, paths in debs.items()}
    with tempfile.TemporaryDirectory() as files:
        for paths in debs.values():
            for deb in paths:
                run("dpkg-deb", "-x", deb, files)

        def programs(*names: str) -> dict[str, str]:
            return {name: os.path.join(files, "usr/bin", name) for name in names}

        etcd(root, arch, number["etcd"], programs("etcd", "etcdctl"))
        containerd(root, arch, number["containerd"], programs("containerd", "containerd-shim-runc-v2", "ctr"))
        shutil.copyfile(
            os.path.join(files, "usr/sbin/runc"), place(root, "opencontainers/runc", number["runc"], f"runc.{arch}")
        )
        plugins = os.path.join(files, "usr/lib/cni")
        name = f"cni-plugins-linux-{arch}-v{number['plugins']}.tgz"
        archive(
            place(root, "containernetworking/plugins", number["plugins"], name),
            {name: os.path.join(plugins, name) for name in os.listdir(plugins)},
            "./",
        )


def pack_own(root: str, arch: str, companions: list[kubernetes.Companion]) -> None:
    """What the lab built, by the release that it belongs to."""
    built: dict[tuple[Callable[[str, str, str, dict[str, str]], None], str], dict[str, str]] = {}
    for one in (one for one in companions if arch in one.archs()):
        built.setdefault((OWN[one.name], one.version), {})[one.name] = one.path(arch)
    for (release, number), programs in built.items():
        release(root, arch, number, programs)


def coredns(root: str, arch: str, version: str, programs: dict[str, str]) -> None:
    archive(place(root, "coredns/coredns", version, f"coredns_{version}_linux_{arch}.tgz"), programs, "")


def etcd(root: str, arch: str, version: str, programs: dict[str, str]) -> None:
    name = f"etcd-v{version}-linux-{arch}"
    archive(place(root, "etcd-io/etcd", version, f"{name}.tar.gz"), programs, f"{name}/")


def containerd(root: str, arch: str, version: str, programs: dict[str, str]) -> None:
    archive(
        place(root, "containerd/containerd", version, f"containerd-static-{version}-linux-{arch}.tar.gz"),
        programs,
        "bin/",
    )


# a program that the lab builds: the release that it is part of
OWN = {
    "coredns": coredns,
    "etcd": etcd,
    "etcdctl": etcd,
    "etcdutl": etcd,
    "containerd": containerd,
    "containerd-shim-runc-v2": containerd,
    "ctr": containerd,
}


def place(root: str, project: str, version: str, name: str) -> str:
    folder = os.path.join(root, project, "releases/download", f"v{version}")
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name)


def archive(path: str, programs: dict[str, str], prefix: str) -> None:
    """The same bytes for the same programs, so that what was fetched once stays known."""
    with (
        open(path, "wb") as file,
        gzip.GzipFile("", "wb", 1, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for name, source in sorted(programs.items()):
            entry = tarfile.TarInfo(prefix + name)
            entry.size, entry.mode = os.path.getsize(source), 0o755
            with open(source, "rb") as content:
                tar.addfile(entry, content)
