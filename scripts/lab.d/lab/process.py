"""Running commands, saying what happens, and the one error type that reaches the user."""

import shutil
import subprocess
import sys
import time
from typing import Any

START = time.monotonic()
QUIET = False


class LabError(Exception):
    """Something a person must know, with one thing to do about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def say(text: str) -> None:
    """One progress line, with the seconds since the start, on stderr."""
    if not QUIET:
        print(f"[{time.monotonic() - START:5.0f}s] {text}", file=sys.stderr, flush=True)


def run(*command: object, **options: Any) -> str:
    """Run a command; its output is kept back and shown only if it fails. Returns its stdout."""
    words = [str(word) for word in command]
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(words, text=True, **options)
    if done.returncode != 0:
        said = "\n".join(part for part in (done.stdout, done.stderr) if part).strip()
        raise LabError(f"`{brief(words)}` ended with {done.returncode}" + (f"\n{tail(said)}" if said else ""))
    return done.stdout or ""


def succeeds(*command: object, **options: Any) -> bool:
    """Whether a command ends with 0; what it prints is dropped."""
    words, nothing = [str(word) for word in command], subprocess.DEVNULL
    return subprocess.run(words, stdin=nothing, stdout=nothing, stderr=nothing, **options).returncode == 0


def need(program: str, package: str | None = None) -> None:
    """Refuse early, and by name, when a program is missing."""
    if shutil.which(program) is None:
        raise LabError(
            f"`{program}` is not installed" + (f" (Debian package `{package}`)" if package else ""),
            hint="run scripts/setup lab",
        )


def brief(command: list[str]) -> str:
    """A command as people want to read it: not all of its forty file names."""
    text = " ".join(command)
    return text if len(text) <= 300 else f"{text[:297]}..."


def tail(text: str, lines: int = 15) -> str:
    return "\n".join(f"  | {line}" for line in text.splitlines()[-lines:])
