"""The rows of one part of a run, and the page that all parts make together."""

import argparse
import os
import pathlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[3]

# shell text, a list of words, or several commands, which count as their sum
Command = str | Sequence[Any]
Part = dict[str, Any]


class Bench:
    """One part of a run."""

    def __init__(self, options: argparse.Namespace, work: pathlib.Path) -> None:
        self.options = options
        self.work = work
        self.results: list[dict[str, Any]] = []
        self.skipped: list[str] = []
        self.notes: list[list[str]] = []  # paragraphs below the table
        self.growths: list[str] = []

    def kept(self) -> Part:
        names = ("results", "growths", "notes", "skipped")
        about = {"rounds": self.options.rounds, "size": self.options.size}
        return about | {name: getattr(self, name) for name in names}

    def need(self, *programs: str) -> bool:
        """True if all programs are there; else says which one is not."""
        missing = [program for program in programs if not shutil.which(program)]
        if missing:
            self.skip(f"no {', '.join(missing)}")
        return not missing

    def skip(self, reason: str) -> None:
        self.skipped.append(reason)
        print(f"skipped: {reason}", file=sys.stderr)

    def wanted(self, name: str) -> bool:
        return not self.options.only or self.options.only in name

    def programs(self) -> pathlib.Path:
        """The folder with the release build of our programs and examples."""
        if self.options.bin:
            return pathlib.Path(self.options.bin).resolve()
        # All at once: one package alone would have other features, and everything would be compiled twice.
        command = ["cargo", "build", "--release", "--locked", "--workspace", "--bins", "--examples"]
        subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
        target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
        return pathlib.Path(target) / "release"

    def row(self, name: str, against: str, ours: Command, theirs: Command, limit: float | None, memory: int = 150) -> None:
        """Races `ours` against `theirs` (commands as lists of words or shell text; a tuple or
        list of commands is their sum); `against` says what theirs is. `limit` is the largest ratio
        allowed (none: only for comparison), `memory` the largest peak in MiB."""
        if not self.wanted(name):
            return
        times: dict[str, list[float]] = {"ours": [], "theirs": []}
        peak = 0.0
        for _ in range(self.options.rounds):
            for side, command in (("theirs", theirs), ("ours", ours)):
                os.sync()  # what the one before wrote is not this one's to wait for
                seconds, used = self.run(command)
                times[side].append(seconds)
                if side == "ours":
                    peak = max(peak, used)
        self.record(name, against, min(times["ours"]), min(times["theirs"]), limit, peak, memory)

    def growth(self, name: str, small: Command, large: Command) -> None:
        """What twice the work takes: `large` is our command for twice as much as `small`."""
        if not self.wanted(name):
            return
        best = []
        for command in (small, large):
            os.sync()
            runs = [self.run(command) for _ in range(self.options.rounds)]
            best.append((min(run[0] for run in runs), max(run[1] for run in runs)))
        (once, little), (twice, much) = best
        self.growths.append(f"| {name} | {twice / once:.2f} | {little:.0f} MiB | {much:.0f} MiB |")

    def record(
        self,
        name: str,
        against: str,
        ours: float,
        theirs: float,
        limit: float | None,
        peak: float = 0,
        memory: int = 150,
    ) -> None:
        """A row whose seconds are known."""
        ratio = ours / theirs
        result = {
            "row": name,
            "against": against,
            "ours": round(ours, 4),
            "theirs": round(theirs, 4),
            "ratio": round(ratio, 4),
            "limit": limit,
            "peak_mib": round(peak, 1),
            "memory": memory,
            "holds": (limit is None or ratio <= limit) and peak <= memory,
        }
        self.results.append(result)
        if self.options.format != "json":
            self.show(result)

    def run(self, command: Command) -> tuple[float, float]:
        """Wall seconds and peak MiB of a command, or of several."""
        if isinstance(command, tuple) or not isinstance(command[0], (str, pathlib.Path)):
            runs = [self.run(one) for one in command]
            return sum(run[0] for run in runs), max(run[1] for run in runs)
        report = self.work / "time"
        shell = command if isinstance(command, str) else None
        words = ["bash", "-o", "pipefail", "-c", shell] if shell else [str(word) for word in command]
        words = [sys.executable, "-c", MEASURE, str(report), *words]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.work)
        seconds, kib = report.read_text().split()
        return float(seconds), int(kib) / 1024

    def show(self, result: dict[str, Any]) -> None:
        if len(self.results) == 1:
            print(f"{'ROW':<34} {'OURS':>9} {'THEIRS':>9} {'RATIO':>7} {'LIMIT':>6} {'PEAK':>9}")
        mark = "" if result["holds"] else "  over"
        print(
            f"{result['row']:<34} {result['ours']:>8.3f}s {result['theirs']:>8.3f}s "
            f"{result['ratio']:>7.3f} {result['limit'] or '-':>6} {result['peak_mib']:>5.0f} MiB{mark}",
            flush=True,
        )


def page(parts: dict[str, Part]) -> str:
    """The results as docs/benchmarks.md has them."""
    lines = [
        "# Benchmarks",
        "",
        f"Written by `scripts/bench` on {os.cpu_count()} cores ({platform.machine()}), "
        f"Linux {platform.release().split('-')[0]}. Each row compares our command with",
        "other tools in the same run: they take turns, and the best time of each counts. The ratio is our time divided by",
        "theirs; peak memory is ours.",
        "",
        "| job | against | ours | theirs | ratio | at most | peak | at most | |",
        "|---|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for row in all_of(parts, "results"):
        limit = row["limit"] if row["limit"] is not None else ""
        peak = f"{row['peak_mib']:.0f} MiB" if row["peak_mib"] else "not measured"
        lines.append(
            f"| {row['row']} | {row['against']} | {row['ours']:.3f} s | {row['theirs']:.3f} s | {row['ratio']:.3f} "
            f"| {limit} | {peak} | {row['memory']} MiB | {'' if row['holds'] else 'over'} |"
        )
    growths = all_of(parts, "growths")
    if growths:
        lines += [
            "",
            "What twice as much takes:",
            "",
            "| job | time | peak before | peak after |",
            "|---|--:|--:|--:|",
            *growths,
        ]
    for note in all_of(parts, "notes"):
        lines += ["", *note]
    rounds = (f"{name}: {part['rounds']} rounds, {part['size']} MiB of payload" for name, part in sorted(parts.items()))
    lines += ["", "; ".join(rounds) + ".", *(f"Not run: {reason}." for reason in all_of(parts, "skipped"))]
    return "\n".join(lines) + "\n"


def all_of(parts: dict[str, Part], what: str) -> list[Any]:
    return [each for _, part in sorted(parts.items()) for each in part[what]]


# Runs in a process of its own, so that peak memory is that of one command and its children.
MEASURE = """
import resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.call(sys.argv[2:])
seconds = time.perf_counter() - start
open(sys.argv[1], "w").write(f"{seconds} {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}")
sys.exit(code)
"""
