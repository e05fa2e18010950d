"""RPM repositories for x86_64 and aarch64 with real programs, signed with a test key.

Kubernetes is packaged as openEuler does it (kubernetes-master, -node, -kubelet, -client), from the lab's own build. The
rest is Debian's, package by package: rpm's own generators find which libraries each needs and offers, so that resolving and
installing are the real thing.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

from .. import debian, kubernetes, rootfs
from ..process import need, run, say
from ..settings import ARCHS, cache
from .rpmbuild import KEY_NAME, RPM_ARCH, Package, signing_key

# Debian package: the name that RPM distributions give it, and what it needs beyond libraries
REPACKED = {
    "containerd": ("containerd", ["runc"]),
    "runc": ("runc", []),
    "containernetworking-plugins": ("containernetworking-plugins", []),
    "conntrack": ("conntrack-tools", []),
    "socat": ("socat", []),
    "ethtool": ("ethtool", []),
    "ipset": ("ipset", []),
    "iptables": ("iptables", []),
    "nftables": ("nftables", []),
    "etcd-server": ("etcd", ["etcd-client"]),
    "etcd-client": ("etcd-client", []),
    "docker.io": ("docker-engine", ["containerd", "runc", "iptables"]),
    "tini": ("tini", []),
    "jq": ("jq", []),
    "libjq1": ("libjq1", []),
    "libonig5": ("oniguruma", []),
    "nginx": ("nginx", ["nginx-filesystem"]),
    "nginx-common": ("nginx-filesystem", []),
    "libnginx-mod-stream": ("nginx-mod-stream", ["nginx"]),
    "libxtables12": ("iptables-libs", []),
    "libip4tc2": ("libip4tc", []),
    "libip6tc2": ("libip6tc", []),
    "libmnl0": ("libmnl", []),
    "libnftnl11": ("libnftnl", []),
    "libnfnetlink0": ("libnfnetlink", []),
    "libnetfilter-conntrack3": ("libnetfilter_conntrack", []),
    "libipset13": ("ipset-libs", []),
    "libwrap0": ("tcp_wrappers-libs", []),
    "libnftables1": ("nftables-libs", []),
    "libjansson4": ("jansson", []),
    "libedit2": ("libedit", []),
    "libbsd0": ("libbsd", []),
    "libmd0": ("libmd", []),
    "libpcre3": ("pcre", []),
    "libgmp10": ("gmp", []),
    "libtinfo6": ("ncurses-libs", []),
    # what every host has; a closure over this repository alone finds all of it
    "libc6": ("glibc", []),
    "bash": ("bash", []),
    "libgcc-s1": ("libgcc", []),
    "libcrypt1": ("libxcrypt", []),
    "zlib1g": ("zlib", []),
    "libssl3": ("openssl-libs", []),
    "libgssapi-krb5-2": ("krb5-libs", []),
    "libkrb5-3": ("libkrb5", []),
    "libk5crypto3": ("libk5crypto", []),
    "libkrb5support0": ("libkrb5support", []),
    "libcom-err2": ("libcom_err", []),
    "libkeyutils1": ("keyutils-libs", []),
    "libseccomp2": ("libseccomp", []),
    "libselinux1": ("libselinux", []),
    "libpcre2-8-0": ("pcre2", []),
    "libsystemd0": ("systemd-libs", []),
    "libudev1": ("libudev", []),
    "libcap2": ("libcap", []),
    "libgcrypt20": ("libgcrypt", []),
    "libgpg-error0": ("libgpg-error", []),
    "liblz4-1": ("lz4-libs", []),
    "liblzma5": ("xz-libs", []),
    "libzstd1": ("libzstd", []),
    "libnetfilter-cthelper0": ("libnetfilter_cthelper", []),
    "libdevmapper1.02.1": ("device-mapper-libs", []),
    "libnsl2": ("libnsl2", []),
    "libtirpc3": ("libtirpc", []),
}

# what rpm's generators do not find by themselves
PROVIDES = {"iptables": ["iptables-nft"], "glibc": ["rtld(GNU_HASH)"], "bash": ["/bin/sh", "/bin/bash", "/bin/dash"]}

# what Debian's own scripts do before the files come
BEFORE = {"docker-engine": "getent group docker >/dev/null || groupadd --system docker"}

# package: (programs, requirements, what it is)
KUBERNETES = {
    "kubernetes-client": (["kubectl"], [], "the command line of Kubernetes"),
    "kubernetes-kubelet": (["kubelet"], ["conntrack-tools", "socat", "iptables"], "the agent of a Kubernetes node"),
    "kubernetes-node": (
        ["kube-proxy"],
        ["kubernetes-kubelet", "kubernetes-client", "iptables"],
        "what a Kubernetes node runs",
    ),
    "kubernetes-master": (
        ["kube-apiserver", "kube-controller-manager", "kube-scheduler"],
        ["kubernetes-client"],
        "the control plane of Kubernetes",
    ),
}
# Debian's alternatives make these links; an RPM owns them
IPTABLES_LINKS = [
    "iptables",
    "iptables-save",
    "iptables-restore",
    "ip6tables",
    "ip6tables-save",
    "ip6tables-restore",
    "ebtables",
    "arptables",
]
UNWANTED = [
    "usr/share/doc",
    "usr/share/man",
    "usr/share/lintian",
    "usr/share/bug",
    "usr/share/locale",
    "etc/init.d",
    "etc/default",
]


def repositories() -> str:
    """The folder with one repository per arch and the public key; made when the cache lacks it."""
    for program, package in (
        ("rpmbuild", "rpm"),
        ("rpmsign", "rpm"),
        ("createrepo_c", "createrepo-c"),
        ("gpg", "gnupg"),
    ):
        need(program, package)
    with rootfs.locked("upstream-rpm"):
        offered = {arch: packages(arch) for arch in ARCHS}
        path = cache("upstream", "rpm-" + rootfs.digest(*(package.digest() for arch in ARCHS for package in offered[arch])))
        if not os.path.isdir(path):
            make(path, offered)
    return path


def make(path: str, offered: dict[str, list[Package]]) -> None:
    part, home = f"{path}.part", signing_key()
    environment = dict(os.environ, GNUPGHOME=home)
    shutil.rmtree(part, ignore_errors=True)
    for arch, every in offered.items():
        missing = [package for package in every if not os.path.exists(package.path())]
        say(f"upstream: {len(every)} RPMs for {RPM_ARCH[arch]}, {len(missing)} to make")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            built = list(pool.map(lambda package: package.build(), every))
        target = os.path.join(part, RPM_ARCH[arch])
        os.makedirs(target)
        for rpm in built:
            os.link(rpm, os.path.join(target, os.path.basename(rpm)))
        run("createrepo_c", "--quiet", target)
        run(
            "gpg",
            "--batch",
            "--yes",
            "--detach-sign",
            "--armor",
            "--local-user",
            KEY_NAME,
            f"{target}/repodata/repomd.xml",
            env=environment,
        )
    with open(os.path.join(part, KEY_NAME), "w") as file:
        file.write(run("gpg", "--armor", "--export", KEY_NAME, env=environment))
    os.rename(part, path)


def packages(arch: str) -> list[Package]:
    wanted = list(REPACKED)
    debs = debian.Apt(arch).download(cache("upstream", "debs", arch), *wanted)
    offered = [repacked(name, deb, arch) for name, deb in zip(wanted, debs, strict=True)]
    for version in kubernetes.versions():
        if all(kubernetes.built(version, each) for each in ARCHS):
            offered += [of_kubernetes(name, version, arch) for name in KUBERNETES]
    return offered + [of_coredns(one, arch) for one in kubernetes.companions("coredns") if arch in one.archs()]


def repacked(name: str, deb: str, arch: str) -> Package:
    """Debian's files under the name that an RPM distribution gives them."""
    rpm_name, requires = REPACKED[name]
    # the version is in the file's name: no need to open forty packages to learn that nothing changed
    version = os.path.basename(deb).split("_")[1].replace("%3a", ":").split(":")[-1]
    upstream, _, release = version.rpartition("-")

    def lay_out(files: str) -> None:
        run("dpkg-deb", "-x", deb, files)
        merge_usr(files)
        for unwanted in UNWANTED:
            shutil.rmtree(os.path.join(files, unwanted), ignore_errors=True)
        if name == "iptables":
            for link in IPTABLES_LINKS:
                place = os.path.join(files, "usr/sbin", link)
                if not os.path.lexists(place):
                    os.symlink("xtables-nft-multi", place)

    return Package(
        arch,
        rpm_name,
        upstream or version,
        f"{release}.el8",
        rpm_name,
        requires,
        [deb],
        lay_out,
        PROVIDES.get(rpm_name, []),
        BEFORE.get(rpm_name),
    )


def merge_usr(files: str) -> None:
    for name in ("bin", "sbin", "lib", "lib64"):
        old, new = os.path.join(files, name), os.path.join(files, "usr", name)
        if os.path.isdir(old):
            os.makedirs(new, exist_ok=True)
            run("cp", "-a", f"{old}/.", new)
            shutil.rmtree(old)


def of_kubernetes(name: str, version: str, arch: str) -> Package:
    programs, requires, summary = KUBERNETES[name]
    sources = [os.path.join(kubernetes.programs(version, arch), program) for program in programs]
    exact = [f"{needed} = {version}" if needed.startswith("kubernetes-") else needed for needed in requires]
    return Package(arch, name, version, "1.el8", summary, exact, sources, lambda files: put_programs(files, sources))


def of_coredns(one: kubernetes.Companion, arch: str) -> Package:
    source = one.path(arch)
    return Package(
        arch,
        "coredns",
        one.version,
        "1.el8",
        "a DNS server for Kubernetes",
        [],
        [source],
        lambda files: put_programs(files, [source]),
    )


def put_programs(files: str, sources: list[str]) -> None:
    folder = os.path.join(files, "usr/bin")
    os.makedirs(folder)
    for source in sources:
        shutil.copy2(source, folder)
