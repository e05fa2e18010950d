"""Resolving both archs of one manifest, metadata on disk, against apt and dnf asked once per arch; and reading that
metadata for the first time, against their own reading of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench import ROOT, Bench

NAMES = [
    "etcd-server",
    "etcd-client",
    "containerd",
    "runc",
    "containernetworking-plugins",
    "conntrack",
    "socat",
    "nginx",
    "libnginx-mod-stream",
    "kubernetes-client",
    "iptables",
    "ebtables",
    "ethtool",
    "ipset",
    "kmod",
]
ARCHS = ["amd64", "arm64"]


def rows(bench: Bench) -> None:
    if (bench.wanted("resolve debs") or bench.wanted("read deb metadata")) and bench.need("apt-get"):
        debs(bench)
    if bench.wanted("resolve rpms") or bench.wanted("read rpm metadata"):
        rpms(bench)


def debs(bench: Bench) -> None:
    program = bench.programs() / "eggo-bundle"
    manifest = bench.work / "resolve.yaml"
    manifest.write_text(
        "name: resolve\nversion: 1\nrepos: [{name: system, type: deb, from: system}]\nbaseline: none\n"
        f"packages: {{worker: [{', '.join(NAMES)}]}}\n"
    )
    cache = bench.work / "resolve-cache"
    lock: list[str | Path] = [program, "lock", "-m", manifest, "--arch", ",".join(ARCHS), "--cache-dir", cache]
    subprocess.run(lock, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    configs = [apt(bench.work / f"apt-{arch}", arch) for arch in ARCHS]
    bench.row(
        "resolve debs",
        against="`apt-get --print-uris` for each arch",
        ours=[*lock, "--offline"],
        theirs=[
            [
                "env",
                f"APT_CONFIG={config}",
                "apt-get",
                "-qq",
                "-o",
                "APT::Install-Recommends=false",
                "install",
                "--print-uris",
                *NAMES,
            ]
            for config in configs
        ],
        limit=0.25,
    )
    read_debs(bench, program, configs[0])


def read_debs(bench: Bench, program: Path, config: Path) -> None:
    """The largest list of packages that apt has here, as a repository of its own."""
    folder = bench.work / "flat"
    folder.mkdir()
    state = config.parent / "state/lists"
    largest = max(state.glob("*_Packages*"), key=lambda path: path.stat().st_size)
    helper = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", largest], check=True, capture_output=True)
    (folder / "Packages").write_bytes(helper.stdout)
    release = subprocess.run(["apt-ftparchive", "release", "."], cwd=folder, check=True, capture_output=True)
    (folder / "Release").write_bytes(release.stdout)
    manifest = bench.work / "flat.yaml"
    manifest.write_text(
        f'name: flat\nversion: 1\narchs: [amd64]\nrepos: [{{name: flat, type: deb, url: "file://{folder}", suites: [./], '
        "allow-unsigned: true}]\nbaseline: none\npackages: {worker: [tar]}\n"
    )
    cache = bench.work / "flat-cache"
    lock = [program, "lock", "-m", manifest, "--cache-dir", cache]
    # The lists of one suite and arch, nothing else.
    lists = bench.work / "apt-flat/state/lists"
    alone = apt_folder(bench.work / "apt-flat", "amd64")
    for path in state.glob("*"):
        if path.is_file() and (path == largest or path.name.startswith(largest.name.split("_main_")[0])):
            shutil.copy(path, lists / path.name)
    environment = ["env", f"APT_CONFIG={alone}"]
    packages = helper.stdout.count(b"\nPackage: ") + 1
    bench.row(
        "read deb metadata",
        against=f"`apt-cache gencaches`, {packages:,} packages",
        ours=[["rm", "-rf", cache], lock],
        theirs=[
            ["rm", "-f", *(alone.parent / "cache" / name for name in ("pkgcache.bin", "srcpkgcache.bin"))],
            [*environment, "apt-cache", "gencaches"],
        ],
        limit=1,
    )


# An openEuler repository's metadata for each arch, as folders with `repodata/`.
RPM_DATA = Path(os.environ.get("EGGO_TEST_DATA", "../shared/data"), "rpm")
RPM_REPOS = {"amd64": "openeuler-2003sp3", "arm64": "openeuler-2003sp3-aarch64"}
RPM_NAMES = [
    "docker-engine",
    "conntrack-tools",
    "socat",
    "nginx",
    "haproxy",
    "ipset",
    "ebtables",
    "ethtool",
    "keepalived",
]
# dnf belongs to the distribution's own Python.
PYTHON = "/usr/bin/python3"


def rpms(bench: Bench) -> None:
    data = (ROOT / RPM_DATA).resolve()
    if not data.exists():
        bench.skip("resolve rpms: no test data (EGGO_TEST_DATA)")
        return
    if subprocess.run([PYTHON, "-c", "import dnf"], stderr=subprocess.DEVNULL).returncode != 0:
        bench.skip("resolve rpms: no python3-dnf")
        return
    program = bench.programs() / "eggo-bundle"
    manifest = bench.work / "rpms.yaml"
    repos = ", ".join(
        f'{{name: {repo}, type: rpm, url: "file://{data}/{repo}", archs: [{arch}], allow-unsigned: true}}'
        for arch, repo in RPM_REPOS.items()
    )
    manifest.write_text(
        f"name: rpms\nversion: 1\nrepos: [{repos}]\nbaseline: none\npackages: {{worker: [{', '.join(RPM_NAMES)}]}}\n"
    )
    lock: list[str | Path] = [
        program,
        "lock",
        "-m",
        manifest,
        "--arch",
        ",".join(ARCHS),
        "--cache-dir",
        bench.work / "rpms-cache",
    ]
    machines = {"amd64": "x86_64", "arm64": "aarch64"}
    dnf: list[list[str | Path]] = [
        [PYTHON, "-c", DNF, bench.work / f"dnf-{arch}", machines[arch], f"file://{data}/{repo}", *RPM_NAMES]
        for arch, repo in RPM_REPOS.items()
    ]
    for warm_up in [lock, *dnf]:
        subprocess.run(warm_up, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    bench.row(
        "resolve rpms",
        against="dnf's solver for each arch",
        ours=[*lock, "--offline"],
        theirs=dnf,
        limit=0.25,
    )
    bench.row(
        "read rpm metadata",
        against="dnf's solver for each arch, without its cache",
        ours=[["rm", "-rf", bench.work / "rpms-cache"], lock],
        theirs=[["rm", "-rf", *(bench.work / f"dnf-{arch}/cache" for arch in RPM_REPOS)], *dnf],
        limit=1,
    )


# dnf's own answer into an empty root, weak dependencies off.
DNF = """
import dnf, sys
folder, arch, url, *names = sys.argv[1:]
base = dnf.Base()
conf = base.conf
conf.installroot, conf.cachedir, conf.reposdir = folder + "/root", folder + "/cache", ["/dev/null"]
conf.install_weak_deps, conf.best, conf.ignorearch = False, True, True
conf.substitutions["releasever"] = "1"
conf.arch, conf.basearch, conf.module_platform_id = arch, dnf.rpm.basearch(arch), "platform:el8"
base.repos.add_new_repo("repo", conf, baseurl=[url], gpgcheck=False, metadata_expire=-1)
base.fill_sack(load_system_repo=False)
for name in names:
    base.install(name)
base.resolve()
print(len(base.transaction.install_set))
"""


def apt(folder: Path, arch: str) -> Path:
    """An apt of its own for an empty system of `arch`, with the machine's sources and warm caches."""
    config = apt_folder(folder, arch)
    environment = ["env", f"APT_CONFIG={config}"]
    subprocess.run([*environment, "apt-get", "-qq", "update"], check=True, stdout=sys.stderr)
    # The first look builds apt's own cache.
    subprocess.run([*environment, "apt-cache", "policy", "tar"], check=True, stdout=subprocess.DEVNULL)
    return config


def apt_folder(folder: Path, arch: str) -> Path:
    for below in ["state/lists/partial", "cache/archives/partial", "conf"]:
        (folder / below).mkdir(parents=True)
    (folder / "status").write_text("")
    config = folder / "apt.conf"
    config.write_text(
        f'Dir::State "{folder}/state"; Dir::State::status "{folder}/status"; Dir::Cache "{folder}/cache";\n'
        f'Dir::Cache::pkgcache "pkgcache.bin"; Dir::Cache::srcpkgcache "srcpkgcache.bin"; Dir::Log "{folder}";\n'
        f'Dir::Etc::Parts "{folder}/conf"; APT::Sandbox::User "root"; Acquire::Languages "none";\n'
        'Acquire::Check-Valid-Until "false"; APT::Immediate-Configure "false";\n'
        f'APT::Architecture "{arch}"; APT::Architectures {{ "{arch}"; }};\n'
    )
    return config
