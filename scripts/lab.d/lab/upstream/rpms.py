"""RPM repositories for x86_64 and aarch64 with real programs, signed with a test key.

Kubernetes is packaged as openEuler does it (kubernetes-master, -node, -kubelet, -client), from the lab's own build. The
rest is Debian's, package by package: rpm's own generators find which libraries each needs and offers, so that resolving and
installing are the real thing.
"""

import glob
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

from .. import debian, kubernetes, rootfs
from ..process import need, run, say
from ..settings import ARCHS, cache

RPM_ARCH = {"amd64": "x86_64", "arm64": "aarch64"}
KEY_NAME = "RPM-GPG-KEY-lab"
RECIPE = 1  # raise it when a package below changes

# Debian package: the name that RPM distributions give it, and what it needs beyond libraries
REPACKED = {
    "containerd": ("containerd", ["runc"]), "runc": ("runc", []), "containernetworking-plugins": ("containernetworking-plugins", []),
    "conntrack": ("conntrack-tools", []), "socat": ("socat", []), "ethtool": ("ethtool", []), "ipset": ("ipset", []), "iptables": ("iptables", []),
    "nftables": ("nftables", []), "etcd-server": ("etcd", []), "etcd-client": ("etcd-client", []), "docker.io": ("docker-engine", ["containerd", "runc", "iptables"]), "tini": ("tini", []),
    "jq": ("jq", []), "libjq1": ("libjq1", []), "libonig5": ("oniguruma", []), "nginx-light": ("nginx", ["nginx-filesystem"]), "nginx-common": ("nginx-filesystem", []), "nginx": ("nginx-meta", ["nginx"]),
    "libxtables12": ("iptables-libs", []), "libip4tc2": ("libip4tc", []), "libip6tc2": ("libip6tc", []), "libmnl0": ("libmnl", []), "libnftnl11": ("libnftnl", []),
    "libnfnetlink0": ("libnfnetlink", []), "libnetfilter-conntrack3": ("libnetfilter_conntrack", []), "libipset13": ("ipset-libs", []), "libwrap0": ("tcp_wrappers-libs", []),
    "libnftables1": ("nftables-libs", []), "libjansson4": ("jansson", []), "libedit2": ("libedit", []), "libbsd0": ("libbsd", []), "libmd0": ("libmd", []), "libpcre3": ("pcre", []),
    "libgmp10": ("gmp", []), "libtinfo6": ("ncurses-libs", []),
    "libnetfilter-cthelper0": ("libnetfilter_cthelper", []), "libdevmapper1.02.1": ("device-mapper-libs", []), "libnsl2": ("libnsl2", []), "libtirpc3": ("libtirpc", []),
}
LEFT_OUT = {"nginx"}

# package: (programs, requirements, what it is)
KUBERNETES = {
    "kubernetes-client": (["kubectl"], [], "the command line of Kubernetes"),
    "kubernetes-kubelet": (["kubelet"], ["conntrack-tools", "socat", "iptables"], "the agent of a Kubernetes node"),
    "kubernetes-node": (["kube-proxy"], ["kubernetes-kubelet", "kubernetes-client", "iptables"], "what a Kubernetes node runs"),
    "kubernetes-master": (["kube-apiserver", "kube-controller-manager", "kube-scheduler"], ["kubernetes-client"], "the control plane of Kubernetes"),
}
SCRIPTLETS = "%post\nsystemctl daemon-reload >/dev/null 2>&1 || :\n%postun\nsystemctl daemon-reload >/dev/null 2>&1 || :\n"
DEFINES = {
    "debug_package": "%{nil}", "_build_id_links": "none", "__os_install_post": "%{nil}", "__arch_install_post": "%{nil}", "_binary_payload": "w1.gzdio",
    "_buildhost": "lab", "_source_date_epoch_from_changelog": "0", "use_source_date_epoch_as_buildtime": "1", "clamp_mtime_to_source_date_epoch": "1",
}


def repositories():
    """The folder with one repository per arch and the public key; made when the cache lacks it."""
    built = sorted(version for version in kubernetes.versions() if all(kubernetes.built(version, arch) for arch in ARCHS))
    coredns = [one.version for one in kubernetes.companions("coredns")]
    path = cache("upstream", "rpm-" + rootfs.digest(RECIPE, *built, *coredns, sorted(REPACKED.items()), sorted(KUBERNETES.items())))
    with rootfs.locked("upstream-rpm"):
        if not os.path.isdir(path):
            make(path, built)
    return path


def make(path, versions):
    for program, package in (("rpmbuild", "rpm"), ("rpmsign", "rpm"), ("createrepo_c", "createrepo-c"), ("gpg", "gnupg")):
        need(program, package)
    part = f"{path}.part"
    shutil.rmtree(part, ignore_errors=True)
    home = signing_key()
    for arch in ARCHS:
        say(f"upstream: making RPMs for {RPM_ARCH[arch]}")
        target = os.path.join(part, RPM_ARCH[arch])
        os.makedirs(target)
        specs = repack_all(arch, part) + package_coredns(arch, part)
        for version in versions:
            specs += package_kubernetes(version, arch, part)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda spec: build(spec, arch, part), specs))
        for rpm in glob.glob(f"{part}/work/RPMS/{arch}/*/*.rpm"):
            os.rename(rpm, os.path.join(target, os.path.basename(rpm)))
        run("rpmsign", "--addsign", "--define", f"_gpg_name {KEY_NAME}", "--define", f"_gpg_path {home}", "--define", "__gpg /usr/bin/gpg", *sorted(glob.glob(f"{target}/*.rpm")), env=dict(os.environ, GNUPGHOME=home))
        run("createrepo_c", "--quiet", target)
        run("gpg", "--batch", "--yes", "--detach-sign", "--armor", "--local-user", KEY_NAME, f"{target}/repodata/repomd.xml", env=dict(os.environ, GNUPGHOME=home))
    with open(os.path.join(part, KEY_NAME), "w") as file:
        file.write(run("gpg", "--armor", "--export", KEY_NAME, env=dict(os.environ, GNUPGHOME=home)))
    shutil.rmtree(f"{part}/work")
    os.rename(part, path)


def signing_key():
    """A key for tests, made once. Returns its keyring's folder."""
    home = cache("upstream", "gnupg")
    if not os.path.isdir(home):
        part = f"{home}.part"
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(part, mode=0o700)
        environment = dict(os.environ, GNUPGHOME=part)
        run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", f"{KEY_NAME} <lab@example.invalid>", "rsa2048", "sign", "never", env=environment)
        run("gpgconf", "--kill", "all", env=environment)
        os.rename(part, home)
    return home


# -- Debian's packages as RPMs ------------------------------------------------------------------------------------------

def repack_all(arch, part):
    wanted = [name for name in REPACKED if name not in LEFT_OUT]
    debs = debian.Apt(arch).download(cache("upstream", "debs", arch), *wanted)
    return [repack(name, deb, arch, part) for name, deb in zip(wanted, debs)]


def repack(name, deb, arch, part):
    """A spec over the files of one .deb."""
    rpm_name, requires = REPACKED[name]
    files = os.path.join(part, "work", arch, rpm_name)
    os.makedirs(files)
    run("dpkg-deb", "-x", deb, files)
    merge_usr(files)
    for unwanted in ("usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/share/bug", "usr/share/locale", "etc/init.d", "etc/default"):
        shutil.rmtree(os.path.join(files, unwanted), ignore_errors=True)
    if name == "iptables":
        # Debian's alternatives make these links; an RPM owns them
        for link, target in (("iptables", "xtables-nft-multi"), ("ip6tables", "xtables-nft-multi"), ("iptables-save", "xtables-nft-multi"), ("iptables-restore", "xtables-nft-multi"), ("ip6tables-save", "xtables-nft-multi"), ("ip6tables-restore", "xtables-nft-multi"), ("ebtables", "xtables-nft-multi"), ("arptables", "xtables-nft-multi")):
            path = os.path.join(files, "usr/sbin", link)
            if not os.path.lexists(path):
                os.symlink(target, path)
    version = run("dpkg-deb", "-f", deb, "Version").strip().split(":")[-1]
    upstream, _, release = version.rpartition("-")
    return spec_of(part, arch, rpm_name, tidy(upstream or version), tidy(release) + ".el8", run("dpkg-deb", "-f", deb, "Description").splitlines()[0], requires, files)


def merge_usr(files):
    for name in ("bin", "sbin", "lib", "lib64"):
        old = os.path.join(files, name)
        if os.path.isdir(old):
            run("cp", "-a", f"{old}/.", ensure(os.path.join(files, "usr", name)))
            shutil.rmtree(old)


def ensure(path):
    os.makedirs(path, exist_ok=True)
    return path


def tidy(text):
    return re.sub(r"[^A-Za-z0-9.+~_]", ".", text)


# -- Kubernetes ---------------------------------------------------------------------------------------------------------

def package_kubernetes(version, arch, part):
    specs = []
    for name, (programs, requires, summary) in KUBERNETES.items():
        files = os.path.join(part, "work", arch, f"{name}-{version}")
        for program in programs:
            target = os.path.join(files, "usr/bin", program)
            ensure(os.path.dirname(target))
            shutil.copy2(os.path.join(kubernetes.programs(version, arch), program), target)
        exact = [f"{needed} = {version}" if needed.startswith("kubernetes-") else needed for needed in requires]
        specs.append(spec_of(part, arch, name, version, "1.el8", summary, exact, files))
    return specs


def package_coredns(arch, part):
    specs = []
    for one in kubernetes.companions("coredns"):
        files = os.path.join(part, "work", arch, f"coredns-{one.version}")
        shutil.copy2(one.path(arch), os.path.join(ensure(os.path.join(files, "usr/bin")), "coredns"))
        specs.append(spec_of(part, arch, "coredns", one.version, "1.el8", "a DNS server for Kubernetes", [], files))
    return specs


# -- rpmbuild -----------------------------------------------------------------------------------------------------------

def spec_of(part, arch, name, version, release, summary, requires, files):
    path = os.path.join(part, "work", "SPECS", arch, f"{name}-{version}.spec")
    ensure(os.path.dirname(path))
    listed = []
    for folder, _, names in os.walk(files):
        listed += [os.path.join(folder, entry)[len(files):] for entry in names]
        listed += [os.path.join(folder, entry)[len(files):] for entry in os.listdir(folder) if os.path.islink(os.path.join(folder, entry)) and os.path.isdir(os.path.join(folder, entry))]
    units = any(entry.endswith(".service") for entry in listed)
    with open(path, "w") as file:
        file.write(f"Name: {name}\nVersion: {version}\nRelease: {release}\nSummary: {summary}\nLicense: see upstream\n")
        file.writelines(f"Requires: {needed}\n" for needed in requires)
        file.write(f"%description\n{summary}\n%install\nmkdir -p %{{buildroot}}\ncp -a {files}/. %{{buildroot}}/\n")
        file.write((SCRIPTLETS if units else "") + "%files\n" + "".join(f'"{entry}"\n' for entry in sorted(set(listed))))
    return path


def build(spec, arch, part):
    name = os.path.basename(spec)[: -len(".spec")]
    work = os.path.join(part, "work", "build", arch, name)
    for folder in ("BUILD", "BUILDROOT"):
        ensure(os.path.join(work, folder))
    defines = {**DEFINES, "_topdir": work, "_rpmdir": os.path.join(part, "work", "RPMS", arch)}
    words = [word for key, value in defines.items() for word in ("--define", f"{key} {value}")]
    run("nice", "-n", "10", "rpmbuild", "-bb", "--quiet", "--target", RPM_ARCH[arch], *words, spec, env=dict(os.environ, SOURCE_DATE_EPOCH="1610000000"))
    shutil.rmtree(work)
