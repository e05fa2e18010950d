"""Building real Kubernetes programs, and what belongs to them, once, for both archs.

Two ways lead to a version. 1.20.2 comes from Debian's source package, built with Debian's Go 1.19. A current version comes
from the Go module proxy: a module of our own that requires `k8s.io/kubernetes` and replaces its staging modules. What is
finished lies in `kubernetes/VERSION/ARCH/`, and is never built again; an interrupted build goes on from Go's own cache.
"""

import glob
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from . import debian, gomodules, rootfs
from .process import LabError, need, run, say
from .settings import ARCHS, cache, jobs

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")
DEBIAN_VERSION = "1.20.2"
CURRENT_VERSION = "1.36.3"


def programs(version: str, arch: str) -> str:
    """The folder with the finished programs of one version and arch."""
    return cache("kubernetes", version, arch)


def versions() -> list[str]:
    """What is built, whole or in part."""
    folder = cache("kubernetes")
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def built(version: str, arch: str) -> bool:
    return all(os.path.exists(os.path.join(programs(version, arch), name)) for name in PROGRAMS)


def build(version: str, archs: Sequence[str] = ARCHS) -> None:
    """Build one version for the archs that the cache lacks."""
    recipe = from_debian if version == DEBIAN_VERSION else from_modules
    with rootfs.locked(f"kubernetes-{version}"):
        for arch in archs:
            if built(version, arch):
                say(f"kubernetes {version} {arch}: in the cache")
            else:
                recipe(version, arch)
                say(f"kubernetes {version} {arch}: built")
        if all(built(version, arch) for arch in ARCHS):
            # gigabytes of source and half-built things that nobody needs any more
            shutil.rmtree(cache("build", f"kubernetes-{version}"), ignore_errors=True)
            if version == DEBIAN_VERSION:
                shutil.rmtree(cache("build", "gocache-1.19"), ignore_errors=True)


def from_debian(version: str, arch: str) -> None:
    """Debian's kubernetes source, with one vendored package replaced.

    The vendored modern-go/reflect2 1.0.1 reads Go's map iterator by a layout that Go 1.18 changed, and every create of an
    object that holds a map ends with INTERNAL_ERROR. Debian's own reflect2 1.0.2 knows the new layout.
    `providerless` is upstream's own tag to leave the cloud providers out: a third less to compile.
    """
    if not os.path.exists(gomodules.DEBIAN_GO):
        raise LabError("Go 1.19 of Debian is not installed (package `golang-1.19-go`)", hint="run scripts/setup lab")
    need("dpkg-source", "dpkg-dev")
    folder = cache("build", f"kubernetes-{version}")
    source = debian.Apt(sources=True).source("kubernetes", folder)
    replace_reflect2(source, folder)
    gopath = os.path.join(folder, "gopath")
    os.makedirs(os.path.join(gopath, "src/k8s.io"), exist_ok=True)
    link = os.path.join(gopath, "src/k8s.io/kubernetes")
    if not os.path.islink(link):
        os.symlink(source, link)
    major, minor = version.split(".")[:2]
    with open(os.path.join(folder, "version"), "w") as file:
        file.write(
            f"KUBE_GIT_COMMIT='lab'\nKUBE_GIT_TREE_STATE='clean'\nKUBE_GIT_VERSION='v{version}'\nKUBE_GIT_MAJOR='{major}'\nKUBE_GIT_MINOR='{minor}'\n"
        )
    environment = {
        "PATH": f"{os.path.dirname(gomodules.DEBIAN_GO)}:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": folder,
        "GOPATH": gopath,
        "GOCACHE": cache("build", "gocache-1.19"),
        "GO111MODULE": "off",
        "GOFLAGS": f"-v -p={jobs()} -tags=providerless",
        "GOMAXPROCS": str(jobs()),
        "GOGC": gomodules.COLLECT,
        "CGO_ENABLED": "0",
        "KUBE_GIT_VERSION_FILE": os.path.join(folder, "version"),
        "KUBE_BUILD_PLATFORMS": f"linux/{arch}",
        "SOURCE_DATE_EPOCH": "1610000000",
    }
    what = " ".join(f"cmd/{name}" for name in PROGRAMS)
    compile_with_progress(
        f"kubernetes {version} {arch}",
        cache("build", f"kubernetes-{version}-{arch}.log"),
        ["make", f"WHAT={what}"],
        cwd=link,
        env=environment,
    )
    keep(programs(version, arch), [os.path.join(source, "_output/local/bin/linux", arch, name) for name in PROGRAMS])


def replace_reflect2(source: str, folder: str) -> None:
    vendored = os.path.join(source, "vendor/github.com/modern-go/reflect2")
    if os.path.exists(os.path.join(vendored, "go_above_118_map.go")):
        return
    (package,) = debian.Apt().download(folder, "golang-github-modern-go-reflect2-dev")
    unpacked = os.path.join(folder, "reflect2")
    run("dpkg", "-x", package, unpacked)
    shutil.rmtree(vendored)
    shutil.copytree(os.path.join(unpacked, "usr/share/gocode/src/github.com/modern-go/reflect2"), vendored)
    for test in glob.glob(os.path.join(vendored, "*_test.go")):
        os.remove(test)


def from_modules(version: str, arch: str) -> None:
    """A current version, from the Go module proxy."""
    folder = gomodules.project("kubernetes", "k8s.io/kubernetes", f"v{version}")
    major, minor = version.split(".")[:2]
    facts = {
        "gitVersion": f"v{version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "lab",
        "buildDate": "2021-01-07T00:00:00Z",
    }
    flags = "-s -w " + " ".join(
        f"-X k8s.io/{library}.{key}={value}"
        for library in ("component-base/version", "client-go/pkg/version")
        for key, value in facts.items()
    )
    output = os.path.join(folder, "bin", arch)
    os.makedirs(output, exist_ok=True)
    compile_with_progress(
        f"kubernetes {version} {arch}",
        cache("build", f"kubernetes-{version}-{arch}.log"),
        [
            gomodules.go(),
            "build",
            f"-ldflags={flags}",
            "-o",
            output + "/",
            *(f"k8s.io/kubernetes/cmd/{name}" for name in PROGRAMS),
        ],
        cwd=folder,
        env=gomodules.environment(arch),
    )
    keep(programs(version, arch), [os.path.join(output, name) for name in PROGRAMS])


# -- what a cluster needs beside Kubernetes -----------------------------------------------------------------------------


class Companion:
    """A program, its version, the module and the package that it is built from, and the Kubernetes that it serves."""

    def __init__(
        self,
        name: str,
        version: str,
        module: str,
        package: str = "",
        c: Sequence[str] = (),
        serves: str = CURRENT_VERSION,
    ) -> None:
        self.name, self.version, self.module, self.package, self.serves = name, version, module, package, serves
        self.c = c  # the archs on which a part of it is written in C

    def path(self, arch: str) -> str:
        return cache("companions", self.name, self.version, arch, self.name)

    def archs(self) -> list[str]:
        """Those that it is built for."""
        return [arch for arch in ARCHS if os.path.exists(self.path(arch))]


COMPANIONS = [
    # the last one that asks a 1.20 for endpoints as it knows them
    Companion("coredns", "1.8.4", "github.com/coredns/coredns", serves=DEBIAN_VERSION),
    Companion("coredns", "1.14.2", "github.com/coredns/coredns"),
    *(
        Companion(name, "2.3.7", "github.com/containerd/containerd/v2", f"/cmd/{name}")
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    Companion("etcd", "3.6.8", "go.etcd.io/etcd/server/v3"),
    *(Companion(name, "3.6.8", f"go.etcd.io/etcd/{name}/v3") for name in ("etcdctl", "etcdutl")),
    Companion("flanneld", "0.26.7", "github.com/flannel-io/flannel", c=("amd64",)),
    Companion("flannel", "0.9.1", "github.com/containernetworking/plugins", "/plugins/meta/flannel"),  # flannel's CNI plugin
]


def companions(name: str | None = None) -> list[Companion]:
    """Those that are built, for one arch at least."""
    return [one for one in COMPANIONS if one.archs() and name in (None, one.name)]


def build_companions(versions: Sequence[str], archs: Sequence[str] = ARCHS) -> list[str]:
    """Build what the proxy offers for these versions of Kubernetes. Returns what was skipped, and why."""
    skipped = []
    for one in (one for one in COMPANIONS if one.serves in versions):
        missing = [arch for arch in archs if arch not in one.archs()]
        if not missing:
            say(f"{one.name} {one.version}: in the cache")
            continue
        try:
            with rootfs.locked(f"companion-{one.name}-{one.version}"):
                for arch in missing:
                    if arch not in one.archs():
                        build_companion(one, arch)
            say(f"{one.name} {one.version}: built")
        except LabError as error:
            skipped.append(f"{one.name} {one.version}: {error}")
    return skipped


def build_companion(one: Companion, arch: str) -> None:
    folder = gomodules.project(one.name, one.module, f"v{one.version}")
    output = os.path.join(folder, "bin", arch, os.path.basename(one.name))
    flags, environment = (
        f"-s -w -X github.com/flannel-io/flannel/pkg/version.Version=v{one.version}",
        gomodules.environment(arch),
    )
    if arch in one.c:
        flags += " -linkmode external -extldflags -static"
        environment = {**environment, "CGO_ENABLED": "1"}
    compile_with_progress(
        f"{one.name} {one.version} {arch}",
        cache("build", f"{one.name}-{one.version}-{arch}.log"),
        [gomodules.go(), "build", f"-ldflags={flags}", "-o", output, one.module + one.package],
        cwd=folder,
        env=environment,
    )
    keep(os.path.dirname(one.path(arch)), [output])


def tidy() -> None:
    """When all is built, nobody needs Go's own caches any more: gigabytes."""
    if all(len(one.archs()) == len(ARCHS) for one in COMPANIONS) and all(
        built(version, arch) for version in (DEBIAN_VERSION, CURRENT_VERSION) for arch in ARCHS
    ):
        shutil.rmtree(cache("build"), ignore_errors=True)


# -- building and keeping -----------------------------------------------------------------------------------------------


def compile_with_progress(what: str, log: str, command: list[str], **options: Any) -> None:
    """Run a build at the lowest priority, and count the packages that it compiles."""
    say(f"{what}: building (log: {log})")
    with open(log, "wb") as file:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "nice", "-n", "19", *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            **options,
        )
    told = time.monotonic()
    while True:
        try:
            status = process.wait(timeout=1)
            break
        except subprocess.TimeoutExpired:
            if time.monotonic() - told >= 60:
                told = time.monotonic()
                with open(log, errors="replace") as file:
                    say(f"{what}: {sum(1 for _ in file)} packages so far")
    if status != 0:
        with open(log, errors="replace") as file:
            end = "\n".join("  | " + line for line in file.read().splitlines()[-15:])
        raise LabError(f"{what} did not build\n{end}", hint=f"all of it is in {log}")


def keep(folder: str, paths: list[str]) -> None:
    """Put finished programs and their checksums into the cache; the last rename makes them visible as a whole."""
    part = f"{folder}.part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    for path in paths:
        target = os.path.join(part, os.path.basename(path))
        shutil.copy2(path, target)
        with open(target, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        with open(f"{target}.sha256", "w") as file:
            file.write(f"{digest}\n")
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(part, folder)
