"""An install onto simulated nodes, each of which takes 10 ms for every command: what the installing process itself needs for
each of 1,000 nodes, against each of 10, and its memory."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from bench import Bench

FEW, MANY = 10, 1000
NAME = f"install onto {MANY} simulated nodes: CPU per node"


def rows(bench: Bench) -> None:
    if not bench.wanted(NAME):
        return
    program = bench.programs() / "examples" / "scale"
    runs: dict[int, list[dict[str, Any]]] = {FEW: [], MANY: []}
    for _ in range(bench.options.rounds):
        for count, results in runs.items():
            results.append(install(program, count))
    few, many = (min(run["cpu"] for run in runs[count]) for count in (FEW, MANY))
    peak = max(run["peak"] for run in runs[MANY]) / (1 << 20)
    bench.record(NAME, f"each of {FEW} nodes", many, few, limit=1.1, peak=peak)
    lines = []
    for count, results in runs.items():
        best = min(results, key=lambda run: run["cpu"])
        memory = max(run["peak"] for run in results) / (1 << 20)
        lines.append(f"| {count} | {best['seconds']:.2f} s | {1000 * best['cpu']:.2f} ms | {memory:.0f} MiB |")
    heads = ["| nodes | took | CPU per node | peak |", "|--:|--:|--:|--:|"]
    bench.notes.append(["An install onto simulated nodes, 10 ms for every command:", "", *heads, *lines])


def install(program: Path, count: int) -> dict[str, Any]:
    done = subprocess.run([program, str(count)], check=True, text=True, stdout=subprocess.PIPE)
    result: dict[str, Any] = json.loads(done.stdout)
    if result["nodes"] != count:
        raise SystemExit(f"{result['nodes']} of {count} nodes were installed")
    return result
