"""What the internet would offer, on this machine: a registry, RPM repositories, an http server with programs and checksums.

It listens on the lab's gateway, where the machine itself reaches it always and the hosts only when it is opened to them.
"""

import os
import shlex
import subprocess
import sys
from typing import Any

from .. import cgroups, fleet, kubernetes, network
from ..process import run, say, succeeds
from ..settings import Lab, cache
from . import registry, releases, rpms

REGISTRY_PORT, WEB_PORT = network.UPSTREAM_PORTS
OTHER_INDEX = 2  # the address of the "other host" that redirects lead to


def up(name: str, opened: bool = False) -> Lab:
    """Start what does not run yet. Returns where everything is."""
    fleet.prepare_machine()
    lab = fleet.claim(name)
    os.makedirs(lab.path("upstream"), exist_ok=True)
    set_open(lab, opened or fleet.is_open(lab))
    run("ip", "address", "replace", f"{lab.address(OTHER_INDEX)}/24", "dev", lab.bridge)
    if not running(lab, "registry"):
        folder = registry.copy_for(lab)
        with open(lab.path("upstream", "registry.yml"), "w") as file:
            file.write(registry.configuration(folder, address(lab)))
        start(lab, "registry", ["docker-registry", "serve", lab.path("upstream", "registry.yml")])
        registry.wait_for(address(lab))
    fill_web(lab)
    if not running(lab, "web"):
        log = lab.path("upstream", "web-access.log")
        start(
            lab,
            "web",
            [
                sys.executable,
                "-m",
                "lab.upstream.web",
                f"--address={web(lab)}",
                f"--other={other(lab)}",
                f"--root={lab.path('upstream', 'www')}",
                f"--registry={address(lab)}",
                f"--log={log}",
            ],
        )
        registry.wait_for(web(lab))
    say(
        f"upstream: registry {address(lab)}, http://{web(lab)}/"
        + (", open to the hosts" if fleet.is_open(lab) else ", closed to the hosts")
    )
    return lab


def down(name: str) -> None:
    lab = fleet.existing(name)
    for service in ("registry", "web"):
        cgroups.kill(group(lab, service))
        cgroups.remove(group(lab, service))
    set_open(lab, False)
    succeeds("ip", "address", "delete", f"{lab.address(OTHER_INDEX)}/24", "dev", lab.bridge)


def set_open(lab: Lab, opened: bool) -> None:
    """Whether hosts reach the upstream."""
    mark = lab.path("upstream", "open")
    os.makedirs(os.path.dirname(mark), exist_ok=True)
    if opened:
        open(mark, "w").close()
    elif os.path.exists(mark):
        os.remove(mark)
    network.up(lab, opened=opened)


def describe(lab: Lab) -> dict[str, Any] | None:
    if not running(lab, "web"):
        return None
    return {
        "registry": address(lab),
        "http": f"http://{web(lab)}",
        "other": f"http://{other(lab)}",
        "open": fleet.is_open(lab),
        "www": lab.path("upstream", "www"),
        "rpm_key": f"http://{web(lab)}/{rpms.KEY_NAME}",
        "rpm": f"http://{web(lab)}/rpm/$basearch/",
        "releases": releases.versions(lab.path("upstream", "www", releases.SERVER)),
    }


def fill_web(lab: Lab) -> None:
    """The http server's folder: links into the cache, so that a later build shows up at once."""
    www = lab.path("upstream", "www")
    os.makedirs(www, exist_ok=True)
    built = cache("kubernetes")
    for version in kubernetes.versions():
        # laid out as Kubernetes' own download server does
        place = os.path.join(www, "release", f"v{version}", "bin")
        os.makedirs(place, exist_ok=True)
        relink(os.path.join(place, "linux"), os.path.join(built, version))
    relink(os.path.join(www, releases.SERVER), releases.folder())
    folder = rpms.repositories()
    for name in os.listdir(folder):
        os.makedirs(os.path.join(www, "rpm"), exist_ok=True)
        relink(os.path.join(www, name if name == rpms.KEY_NAME else f"rpm/{name}"), os.path.join(folder, name))


def relink(path: str, target: str) -> None:
    if os.path.islink(path):
        os.remove(path)
    os.symlink(target, path)


def address(lab: Lab) -> str:
    return f"{lab.gateway}:{REGISTRY_PORT}"


def web(lab: Lab) -> str:
    return f"{lab.gateway}:{WEB_PORT}"


def other(lab: Lab) -> str:
    return f"{lab.address(OTHER_INDEX)}:{WEB_PORT}"


def group(lab: Lab, service: str) -> str:
    return f"{lab.prefix}upstream.{service}"


def running(lab: Lab, service: str) -> bool:
    return bool(cgroups.processes(group(lab, service)))


def start(lab: Lab, service: str, command: list[str]) -> None:
    """In a cgroup of its own, by which `down` finds it whatever happened to us."""
    join = "".join(f"echo 0 > {shlex.quote(entry)}\n" for entry in cgroups.create(group(lab, service)))
    with open(lab.path("upstream", f"{service}.log"), "w") as log:
        subprocess.Popen(
            ["/bin/sh", "-ec", f"{join}exec {shlex.join(command)}"],
            cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
