"""One RPM: from a folder of files to a signed package, made once and kept."""

import glob
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence

from .. import rootfs
from ..process import run
from ..settings import cache

RPM_ARCH = {"amd64": "x86_64", "arm64": "aarch64"}
KEY_NAME = "RPM-GPG-KEY-lab"
RECIPE = 2  # raise it when the way of building changes
SCRIPTLETS = "%post\nsystemctl daemon-reload >/dev/null 2>&1 || :\n%postun\nsystemctl daemon-reload >/dev/null 2>&1 || :\n"
DEFINES = {
    "debug_package": "%{nil}",
    "_build_id_links": "none",
    "__os_install_post": "%{nil}",
    "__arch_install_post": "%{nil}",
    "_binary_payload": "w1.gzdio",
    "_buildhost": "lab",
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
}


class Package:
    """What a package is called and needs, and how to lay out its files. `sources` are the files that it is made of."""

    def __init__(
        self,
        arch: str,
        name: str,
        version: str,
        release: str,
        summary: str,
        requires: list[str],
        sources: list[str],
        lay_out: Callable[[str], None],
        provides: Sequence[str] = (),
        before: str | None = None,
    ) -> None:
        self.arch, self.name, self.version, self.release = arch, name, tidy(version), tidy(release)
        self.summary, self.requires, self.sources, self.lay_out = summary, requires, sources, lay_out
        self.provides, self.before = list(provides), before

    def digest(self) -> str:
        facts = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in self.sources]
        return rootfs.digest(
            RECIPE,
            self.arch,
            self.name,
            self.version,
            self.release,
            self.requires,
            self.provides,
            self.before or "",
            facts,
        )

    def path(self) -> str:
        return cache(
            "upstream", "rpms", self.digest(), f"{self.name}-{self.version}-{self.release}.{RPM_ARCH[self.arch]}.rpm"
        )

    def build(self) -> str:
        """The signed package; made when the cache lacks it."""
        path = self.path()
        if not os.path.exists(path):
            with tempfile.TemporaryDirectory(prefix="rpm-", dir=cache("upstream")) as work:
                self.make(work, path)
        return path

    def make(self, work: str, path: str) -> None:
        files = os.path.join(work, "files")
        os.makedirs(files)
        self.lay_out(files)
        spec = os.path.join(work, "package.spec")
        with open(spec, "w") as file:
            file.write(self.spec(files))
        for folder in ("BUILD", "BUILDROOT"):
            os.makedirs(os.path.join(work, folder))
        defines = {**DEFINES, "_topdir": work, "_rpmdir": os.path.join(work, "RPMS")}
        run(
            "nice",
            "-n",
            "10",
            "rpmbuild",
            "-bb",
            "--quiet",
            "--target",
            RPM_ARCH[self.arch],
            *words(defines),
            spec,
            env=dict(os.environ, SOURCE_DATE_EPOCH="1610000000"),
        )
        (made,) = glob.glob(os.path.join(work, "RPMS/*/*.rpm"))
        home = signing_key()
        run(
            "rpmsign",
            "--addsign",
            *words({"_gpg_name": KEY_NAME, "_gpg_path": home, "__gpg": "/usr/bin/gpg"}),
            made,
            env=dict(os.environ, GNUPGHOME=home),
        )
        os.rename(made, path)

    def spec(self, files: str) -> str:
        listed = sorted(files_below(files))
        lines = [
            f"Name: {self.name}",
            f"Version: {self.version}",
            f"Release: {self.release}",
            f"Summary: {self.summary}",
            "License: see upstream",
        ]
        lines += [f"Requires: {needed}" for needed in self.requires]
        lines += [f"Provides: {provided}" for provided in self.provides]
        lines += ["%description", self.summary, "%install", "mkdir -p %{buildroot}", f"cp -a {files}/. %{{buildroot}}/"]
        lines += ["%pre", self.before] if self.before else []
        lines += [SCRIPTLETS] if any(path.endswith(".service") for path in listed) else []
        return "\n".join([*lines, "%files", *(f'"{path}"' for path in listed)]) + "\n"


def files_below(root: str) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        for name in names + [name for name in folders if os.path.islink(os.path.join(folder, name))]:
            yield os.path.join(folder, name)[len(root) :]


def words(defines: dict[str, str]) -> list[str]:
    return [word for key, value in defines.items() for word in ("--define", f"{key} {value}")]


def tidy(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+~_]", ".", text)


def signing_key() -> str:
    """A key for tests, made once. Returns its keyring's folder."""
    home = cache("upstream", "gnupg")
    with rootfs.locked("upstream-key"):
        if not os.path.isdir(home):
            part = f"{home}.part"
            shutil.rmtree(part, ignore_errors=True)
            os.makedirs(part, mode=0o700)
            environment = dict(os.environ, GNUPGHOME=part)
            run(
                "gpg",
                "--batch",
                "--passphrase",
                "",
                "--quick-generate-key",
                f"{KEY_NAME} <lab@example.invalid>",
                "rsa2048",
                "sign",
                "never",
                env=environment,
            )
            run("gpgconf", "--kill", "all", env=environment)
            os.rename(part, home)
    return home
