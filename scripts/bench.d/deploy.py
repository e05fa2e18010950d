"""A whole deploy on three lab hosts of two archs, phase by phase: how long it takes, and how much of that the
installer itself adds to what the nodes' own commands take."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from bench import ROOT, Bench

NAME = "deploy three nodes: own part"
RAN = re.compile(r"^ *([0-9.]+)s +DEBUG .*: ran host=\S+ seconds=([0-9.]+) ")
PHASE = re.compile(r"^([A-Z].+): (?:\d+ changed|nothing to do).* \(([0-9.]+) s\)$")


def rows(bench: Bench) -> None:
    if not bench.wanted(NAME):
        return
    if os.geteuid() != 0:
        bench.skip(f"{NAME}: only root can start hosts")
        return
    programs = bench.programs()
    lines = deploy(programs)
    commands = sorted((end - took, end) for end, took in found(RAN, lines))
    whole = commands[-1][1] - commands[0][0]
    bench.record(NAME, "the whole deploy", whole - covered(commands), whole, limit=0.15)
    phases = [f"| {title} | {seconds} s |" for title, seconds in found(PHASE, lines)]
    bench.notes.append(["That deploy, phase by phase:", "", "| phase | took |", "|---|--:|", *phases])


def deploy(programs: Path) -> list[str]:
    """What the demo said, with a line for every command that ended on a node."""
    demo = ROOT / "scripts/demo"
    environment = {**os.environ, "EGGO_BIN": str(programs), "EGGO_LOG": "eggo_install=debug"}
    subprocess.run([demo, "--down"], check=True, capture_output=True)
    try:
        ended = subprocess.run([demo], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    finally:
        subprocess.run([demo, "--down"], capture_output=True)
    if ended.returncode != 0:
        raise SystemExit(f"scripts/demo failed:\n{ended.stdout[-3000:]}")
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in ended.stdout.splitlines()]


def found(pattern: re.Pattern[str], lines: list[str]) -> list[tuple[Any, ...]]:
    def value(text: str) -> float | str:
        return float(text) if re.fullmatch(r"[0-9.]+", text) else text

    return [tuple(map(value, match.groups())) for match in map(pattern.match, lines) if match]


def covered(intervals: list[tuple[float, float]]) -> float:
    """How long at least one of them lasted."""
    total = end = 0.0
    for begin, until in intervals:
        total += max(0.0, until - max(begin, end))
        end = max(end, until)
    return total
