"""Resolving both archs of one manifest, metadata on disk, against apt asked once per arch."""
import pathlib
import subprocess
import sys

NAMES = [
    "etcd-server", "etcd-client", "containerd", "runc", "containernetworking-plugins", "conntrack", "socat",
    "nginx", "libnginx-mod-stream", "kubernetes-client", "iptables", "ebtables", "ethtool", "ipset", "kmod",
]
ARCHS = ["amd64", "arm64"]


def rows(bench):
    if bench.options.only and bench.options.only not in "resolve packages" or not bench.need("apt-get"):
        return
    program = bench.build("eggo-bundle") / "eggo-bundle"
    manifest = bench.work / "resolve.yaml"
    manifest.write_text(
        "name: resolve\nversion: 1\nrepos: [{name: system, type: deb, from: system}]\nbaseline: none\n"
        f"packages: {{worker: [{', '.join(NAMES)}]}}\n"
    )
    cache = bench.work / "resolve-cache"
    lock = [program, "lock", "-m", manifest, "--arch", ",".join(ARCHS), "--cache-dir", cache]
    subprocess.run(lock, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    configs = [apt(bench.work / f"apt-{arch}", arch) for arch in ARCHS]
    bench.row(
        "resolve packages",
        ours=[*lock, "--offline"],
        theirs=[
            ["env", f"APT_CONFIG={config}", "apt-get", "-qq", "-o", "APT::Install-Recommends=false", "install",
             "--print-uris", *NAMES]
            for config in configs
        ],
        limit=0.25,
        memory=300,
    )


def apt(folder, arch):
    """An apt of its own for an empty system of `arch`, with the machine's sources and warm caches."""
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
    environment = ["env", f"APT_CONFIG={config}"]
    subprocess.run([*environment, "apt-get", "-qq", "update"], check=True, stdout=sys.stderr)
    # The first look builds apt's own cache.
    subprocess.run([*environment, "apt-cache", "policy", "tar"], check=True, stdout=subprocess.DEVNULL)
    return pathlib.Path(config)
