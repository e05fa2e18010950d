"""The command line: words to calls, errors to exit codes."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable

from . import faults, fleet, kubernetes, process, rootfs, upstream
from .hosts import Host
from .process import LabError, say
from .settings import ARCHS, Lab

Subparsers = argparse._SubParsersAction  # argparse has no public name for it


def main(words: list[str]) -> int:
    options = parser().parse_args(words)
    process.QUIET = options.quiet
    try:
        return options.run(options) or 0
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"\nhint: {error.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="scripts/lab", description="Real hosts, real Kubernetes and a stand-in for the internet, on this machine."
    )
    top.add_argument(
        "--lab",
        default=os.environ.get("EGGO_LAB") or "main",
        metavar="ID",
        help="which lab (default: $EGGO_LAB, else `main`)",
    )
    top.add_argument("--quiet", "-q", action="store_true", help="no progress lines")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    up = add(commands, "up", "bring up hosts; what runs already stays", run_up)
    up.add_argument(
        "--hosts",
        default="",
        metavar="LIST",
        help="[NAME=]KIND[:SIZE] or 3xKIND, comma separated; kinds: deb-amd64, deb-arm64, rpm-amd64, vm-arm64 "
        "(default: one of each but the last)",
    )
    add(commands, "down", "remove the lab and all that it made", lambda options: fleet.down(options.lab))
    status = add(commands, "status", "what there is", run_status)
    status.add_argument("--format", choices=("text", "json"), default="text")

    ssh = add(commands, "ssh", "run a command on a host, or log in", run_ssh)
    ssh.add_argument("host", metavar="HOST")
    ssh.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD")

    for name, text, call in (
        ("crash", "cut a host's power: every process dies at once, the disk stays", run_crash),
        ("boot", "boot a host and wait for ssh", run_boot),
        ("reset", "cut the power, give a fresh disk, boot", run_reset),
        ("remove", "take a host out of the lab", run_remove),
    ):
        command = add(commands, name, text, call)
        command.add_argument("hosts", nargs="+", metavar="HOST")
    logs = add(commands, "logs", "the host's console and journal", run_logs)
    logs.add_argument("host", metavar="HOST")

    cut = add(commands, "cut", "pull a host's network plug", run_cut)
    cut.add_argument("host", metavar="HOST")
    slow = add(commands, "slow", "put a slow wire before a host", run_slow)
    slow.add_argument("host", metavar="HOST")
    slow.add_argument("--delay", type=float, default=0, metavar="MS", help="milliseconds, each way")
    slow.add_argument("--loss", type=float, default=0, metavar="PERCENT", help="frames lost, each way")
    slow.add_argument("--rate", default="0", metavar="BYTES", help="bytes a second, each way: 100k, 2M")
    fill = add(commands, "fill", "use up a host's disk", run_fill)
    fill.add_argument("host", metavar="HOST")
    fill.add_argument("--leave", default="0M", metavar="SIZE", help="leave that much free, as 50M")
    readonly = add(commands, "readonly", "a disk error makes a host's disk read-only", run_readonly)
    readonly.add_argument("host", metavar="HOST")
    readonly.add_argument("--path", help="only this folder, without a disk error")
    skew = add(commands, "skew", "set a host's clock wrong", run_skew)
    skew.add_argument("host", metavar="HOST")
    skew.add_argument("--by", type=int, required=True, metavar="SECONDS", help="ahead, or behind if negative")
    heal = add(commands, "heal", "undo cut, slow, fill, readonly and skew", run_heal)
    heal.add_argument("host", metavar="HOST")

    stand_in = add(commands, "upstream", "what the internet would offer: registry, RPM repositories, http", run_upstream)
    stand_in.add_argument(
        "action", choices=("up", "down", "open", "close"), help="start, stop; open it to the hosts, close it to them"
    )

    images = add(commands, "images", "build and keep what hosts of each kind start from", run_images)
    images.add_argument("kinds", nargs="*", metavar="KIND")
    build = add(commands, "kubernetes", "build and keep real Kubernetes programs, and what goes with them", run_kubernetes)
    build.add_argument("versions", nargs="*", metavar="VERSION")
    build.add_argument("--arch", action="append", choices=ARCHS, help="only this one; both without it")
    return top


def add(
    commands: Subparsers, name: str, text: str, call: Callable[[argparse.Namespace], int | None]
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(run=call)
    return command


def run_up(options: argparse.Namespace) -> None:
    lab = fleet.up(options.lab, [word for word in options.hosts.split(",") if word])
    print_status(lab, "text")


def run_status(options: argparse.Namespace) -> None:
    lab = fleet.find(options.lab)
    if lab is not None:
        print_status(lab, options.format)
    elif options.format == "json":
        print(json.dumps({"lab": options.lab, "hosts": []}, indent=2))
    else:
        others = "".join(f"\nthere is lab `{other}`: scripts/lab --lab {other} status" for other in fleet.names())
        print(f"there is no lab `{options.lab}`; `scripts/lab --lab {options.lab} up` makes it{others}")


def print_status(lab: Lab, form: str) -> None:
    facts = {**fleet.describe(lab), "upstream": upstream.describe(lab)}
    if form == "json":
        print(json.dumps(facts, indent=2))
        return
    print(f"lab {facts['lab']}: network {facts['network']}, key {facts['key']}")
    if facts["upstream"]:
        print(
            f"upstream: registry {facts['upstream']['registry']}, {facts['upstream']['http']}/, "
            f"{'open' if facts['upstream']['open'] else 'closed'} to the hosts"
        )
    for host in facts["hosts"]:
        print(f"  {host['name']:<16} {host['kind']:<10} {host['address']:<14} {host['state']:<8} disk {host['disk']}")


def run_ssh(options: argparse.Namespace) -> int:
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    return fleet.ssh(fleet.existing(options.lab), options.host, words)


def chosen(options: argparse.Namespace) -> list[Host]:
    lab = fleet.existing(options.lab)
    return [fleet.host(lab, name) for name in options.hosts]


def run_crash(options: argparse.Namespace) -> None:
    for host in chosen(options):
        host.crash()
        say(f"{host.name}: crashed")


def run_boot(options: argparse.Namespace) -> None:
    hosts = chosen(options)
    for host in hosts:
        host.boot()
    for host in hosts:
        host.wait()


def run_reset(options: argparse.Namespace) -> None:
    hosts = chosen(options)
    for host in hosts:
        faults.clear(host)
        host.reset()
        host.boot()
    for host in hosts:
        host.wait()


def run_remove(options: argparse.Namespace) -> None:
    for host in chosen(options):
        faults.clear(host)
        host.remove()
    fleet.write_ssh_files(fleet.existing(options.lab))


def run_logs(options: argparse.Namespace) -> None:
    host = only(options)
    with open(host.console, errors="replace") as file:
        sys.stdout.write(file.read())
    sys.stdout.flush()
    # the journal is on the host's disk, so it can be read after a crash too; a virtual machine's only while it is off
    if host.shares_kernel or not host.running():
        host.mount()
        subprocess.call(["journalctl", "--no-pager", "--quiet", "--directory", os.path.join(host.root, "var/log/journal")])
    else:
        subprocess.call(host.ssh("journalctl --no-pager --quiet"))


def only(options: argparse.Namespace) -> Host:
    return fleet.host(fleet.existing(options.lab), options.host)


def run_cut(options: argparse.Namespace) -> None:
    faults.cut(only(options))


def run_slow(options: argparse.Namespace) -> None:
    faults.slow(only(options), options.delay, options.loss, faults.rate_of(options.rate))


def run_fill(options: argparse.Namespace) -> None:
    faults.fill(only(options), rootfs.gigabytes(options.leave))


def run_readonly(options: argparse.Namespace) -> None:
    faults.readonly(only(options), options.path)


def run_skew(options: argparse.Namespace) -> None:
    faults.skew(only(options), options.by)


def run_heal(options: argparse.Namespace) -> None:
    faults.heal(only(options))


def run_upstream(options: argparse.Namespace) -> None:
    if options.action == "down":
        upstream.down(options.lab)
    elif options.action == "close":
        upstream.set_open(fleet.existing(options.lab), False)
    else:
        upstream.up(options.lab, opened=options.action == "open")


def run_images(options: argparse.Namespace) -> None:
    for kind in options.kinds or fleet.DEFAULT_HOSTS:
        if kind not in rootfs.KINDS:
            raise LabError(f"there is no kind `{kind}`", hint=f"kinds: {', '.join(rootfs.KINDS)}")
        rootfs.template(kind)
        say(f"{kind}: in the cache")


def run_kubernetes(options: argparse.Namespace) -> None:
    """1.20.2 must build; what comes from the module proxy is skipped where the proxy does not have it."""
    skipped = []
    archs = options.arch or ARCHS
    versions = options.versions or [kubernetes.DEBIAN_VERSION, kubernetes.CURRENT_VERSION]
    for version in versions:
        try:
            kubernetes.build(version, archs)
        except LabError as error:
            if options.versions or version == kubernetes.DEBIAN_VERSION:
                raise
            skipped.append(f"kubernetes {version}: {error}")
    skipped += kubernetes.build_companions(versions, archs)
    kubernetes.tidy()
    for reason in skipped:
        say(f"skipped {reason}")
