"""Go programs from the module proxy, built for both archs: a current Kubernetes, coredns, flannel.

Kubernetes does not build by `go install`, because its go.mod points at folders beside it for its own libraries. A module of
ours requires it and says where those are: at the version of the same release.
"""

import glob
import json
import os
import re
import shutil
import subprocess

from .process import LabError, run
from .settings import cache, jobs

OLDEST_GO = (1, 21)  # older ones cannot fetch the toolchain that a module asks for
FETCHED_GO = "v0.0.1-go1.24.9.linux-amd64"
DEBIAN_GO = "/usr/lib/go-1.19/bin/go"
COLLECT = "400"  # the compiler collects garbage less often: more memory, a fifth less time


def go() -> str:
    """A Go that is new enough for current modules: this machine's, or one that the proxy offers."""
    for path in (
        shutil.which("go"),
        "/usr/local/go/bin/go",
        *(f"/usr/lib/go-1.{minor}/bin/go" for minor in range(30, 20, -1)),
    ):
        if path and os.path.exists(path):
            found = re.search(r"go(\d+)\.(\d+)", run(path, "version"))
            if found and (int(found[1]), int(found[2])) >= OLDEST_GO:
                return path
    return fetched_go()


def fetched_go() -> str:
    """Go as a module, fetched by Debian's Go, which is too old to do so by itself."""
    if not os.path.exists(DEBIAN_GO):
        raise LabError("Go is not installed (package `golang-1.19-go`)", hint="run scripts/setup lab")
    modules = cache("go")
    root = os.path.join(modules, f"golang.org/toolchain@{FETCHED_GO}")
    path = os.path.join(root, "bin/go")
    if not os.access(path, os.X_OK):
        run(
            DEBIAN_GO,
            "mod",
            "download",
            f"golang.org/toolchain@{FETCHED_GO}",
            cwd="/",
            env=dict(os.environ, GOMODCACHE=modules, GOFLAGS="-mod=mod"),
        )
        # modules have no modes; `go` last, for it says that all is there
        for program in [*glob.glob(f"{root}/pkg/tool/*/*"), path]:
            os.chmod(program, 0o755)
    return path


def environment(arch: str) -> dict[str, str]:
    return dict(
        os.environ,
        GOARCH=arch,
        GOOS="linux",
        CGO_ENABLED="0",
        GOFLAGS=f"-v -p={jobs()} -trimpath -mod=mod",
        GOMAXPROCS=str(jobs()),
        GOGC=COLLECT,
        GOCACHE=cache("build", "gocache"),
        GOMODCACHE=cache("build", "gomodules"),
        GOTOOLCHAIN="auto",
        GOWORK="off",
    )


def available(module: str, version: str) -> tuple[str | None, dict[str, str]]:
    """Whether the proxy has it: a refusal is an answer, not an error."""
    found = subprocess.run(
        [go(), "mod", "download", "-json", f"{module}@{version}"],
        capture_output=True,
        text=True,
        cwd="/",
        env=environment("amd64"),
    )
    try:
        facts = json.loads(found.stdout)
    except ValueError:
        facts = {"Error": found.stderr.strip()}
    return facts.get("Error"), facts


def project(name: str, module: str, version: str) -> str:
    """A module of our own that requires the given one. Returns its folder."""
    error, facts = available(module, version)
    if error:
        raise LabError(f"the Go module proxy does not have {module} {version}: {error}")
    folder = cache("build", f"{name}-{version}", "go.mod")
    with open(facts["GoMod"]) as file:
        required = file.read()
    lines = ["module lab", "", f"go {go_line(required)}", "", f"require {module} {version}", ""]
    if module == "k8s.io/kubernetes":
        staging = sorted(
            set(re.findall(r"^\s*(k8s\.io/\S+) v0\.0\.0\s*(?://.*)?$", required, re.M))
            | set(re.findall(r"^\s*(?:replace )?(k8s\.io/\S+) => \./staging", required, re.M))
        )
        lines += [f"replace {library} => {library} v0.{version.removeprefix('v1.')}" for library in staging]
    else:
        # what the module itself replaces would otherwise not hold for us
        lines += [
            "replace " + found
            for found in re.findall(r"^\s*(?:replace )?(\S+(?: v\S+)? => [^./\s]\S* v\S+)\s*$", required, re.M)
        ]
    with open(folder, "w") as file:
        file.write("\n".join(lines) + "\n")
    return os.path.dirname(folder)


def go_line(text: str) -> str:
    """The version of the language to use: at least 1.21, below which `go` changes how it treats requirements."""
    found = re.search(r"^go (\d+)\.(\d+)", text, re.M)
    version = (int(found[1]), int(found[2])) if found else OLDEST_GO
    return ".".join(map(str, max(version, OLDEST_GO)))
