"""Build, build of compressed payload, verify, read one item."""

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench import Bench

# Where a machine has real payload: packages that apt fetched, and programs.
PROGRAMS = ["/usr/bin", "/usr/lib", "/usr/local"]


def rows(bench: Bench) -> None:
    names = ["twice the bundle", "build", "build, against zstd", "build, compressed payload", "verify", "read one item"]
    tools = ["tar", "pigz", "zstd", "sha256sum", "gzip"]
    if not any(bench.wanted(name) for name in names) or not bench.need(*tools):
        return
    program = bench.programs() / "eggo-bundle"
    bench.run([program, "keygen", "--no-password", "-o", bench.work / "key"])
    mixed = payload(bench, "mixed", programs=bench.options.size // 2)
    packed = payload(bench, "packed", programs=0)

    build_mixed = locked(bench, program, mixed)
    sums = f"find {mixed} -type f -print0 | xargs -0 sha256sum > {bench.work}/sums"
    bench.row(
        "build",
        against="`tar` to `pigz -1`, and `sha256sum`",
        ours=build_mixed,
        theirs=(f"tar cf - -C {mixed} . | pigz -1 > {bench.work}/theirs.tar.gz", sums),
        limit=0.3,
    )
    bench.row(
        "build, against zstd",
        against="`tar` to `zstd -1 -T0`, and `sha256sum`",
        ours=build_mixed,
        theirs=(f"tar cf - -C {mixed} . | zstd -qf -1 -T0 -o {bench.work}/theirs.tar.zst", sums),
        limit=None,
    )
    bench.row(
        "build, compressed payload",
        against="read, sha256 and write",
        ours=locked(bench, program, packed),
        theirs=[sys.executable, "-c", READ_HASH_WRITE, packed, bench.work / "copy"],
        limit=1.3,
    )
    bundle = f"{mixed}.tar.gz"
    bench.run(build_mixed)
    extracted = bench.work / "extracted"
    bench.row(
        "verify",
        against="`tar xzf` and `sha256sum -c`",
        ours=[program, "verify", bundle, "--pubkey", bench.work / "key.pub"],
        theirs=f"rm -rf {extracted} && mkdir {extracted} && tar xzf {bundle} -C {extracted} "
        f"&& cd {extracted} && sha256sum -c --quiet SHA256SUMS",
        limit=0.2,
    )
    if bench.wanted("twice the bundle"):
        half = payload(bench, "half", programs=bench.options.size // 4, size=bench.options.size // 2)
        build_half = locked(bench, program, half)
        bench.growth("twice the bundle: build", build_half, build_mixed)
        check = [program, "verify", "--pubkey", bench.work / "key.pub"]
        bench.growth("twice the bundle: verify", [*check, f"{half}.tar.gz"], [*check, bundle])
        shutil.rmtree(half)
    item = median_item(program, bundle)
    bench.row(
        "read one item",
        against="`tar xzf BUNDLE ITEM`",
        ours=[program, "extract", bundle, "--pubkey", bench.work / "key.pub", "-C", bench.work / "one", item],
        theirs=["tar", "xzf", bundle, "-C", bench.work, item],
        limit=0.01,
    )


def median_item(program: Path, bundle: str) -> str:
    """Of all items, the one of median size."""
    listed = subprocess.run([program, "inspect", bundle, "--format", "json"], check=True, capture_output=True)
    items = sorted(json.loads(listed.stdout)["items"], key=lambda item: item["size"])
    return items[len(items) // 2]["path"]


def locked(bench: Bench, program: Path, folder: Path) -> list[Any]:
    """Fetches every file of the folder into the cache; gives the command that builds from it."""
    manifest = folder.with_suffix(".yaml")
    cache = bench.work / "cache"
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        files = "".join(
            f'  - {{name: {path.name}, dst: /tmp, url: "{url}/{path.name}"}}\n' for path in sorted(folder.iterdir())
        )
        manifest.write_text(f"name: {folder.name}\nversion: 1.0.0\narchs: [amd64]\nfiles:\n{files}")
        base: list[str | Path] = [program, "build", "-m", manifest, "--key", bench.work / "key", "--cache-dir", cache]
        base += ["-o", f"{folder}.tar.gz"]
        subprocess.run([*base], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server.shutdown()
    return [*base, "--locked", "--offline"]


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass


# The least that a build of payload which cannot shrink must do.
READ_HASH_WRITE = """
import hashlib, os, sys
buffer = bytearray(1 << 20)
view = memoryview(buffer)
with open(sys.argv[2], "wb", buffering=0) as out:
    for folder, _, names in os.walk(sys.argv[1]):
        for name in names:
            digest = hashlib.sha256()
            with open(os.path.join(folder, name), "rb", buffering=0) as file:
                while length := file.readinto(buffer):
                    digest.update(view[:length])
                    out.write(view[:length])
    os.fsync(out.fileno())
"""


def payload(bench: Bench, name: str, programs: int, size: int | None = None) -> Path:
    """A folder of `size` MiB: `programs` MiB of ELF files, the rest .debs."""
    folder = bench.work / name
    folder.mkdir()
    size = (size or bench.options.size) << 20
    filled = take(folder, elf_files(), programs << 20)
    filled += take(folder, debs(bench), size - filled)
    # What the machine has is not enough: the same again under other bytes.
    copy = 0
    originals = sorted(folder.iterdir())
    while filled < size:
        copy += 1
        for path in originals:
            if filled < size:
                data = path.read_bytes() + str(copy).encode()
                (folder / f"copy-{copy}-{path.name}").write_bytes(data)
                filled += len(data)
    return folder


def take(folder: Path, files: Iterable[Path], size: int) -> int:
    filled = 0
    for number, path in enumerate(files):
        if filled >= size:
            break
        name = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in path.name)
        shutil.copyfile(path, folder / f"{number:05}-{name}")
        filled += path.stat().st_size
    return filled


def elf_files() -> Iterator[Path]:
    seen = set()
    for top in PROGRAMS:
        for parent, _, names in os.walk(top):
            for name in sorted(names):
                path = Path(parent) / name
                try:
                    status = path.stat()
                    if path.is_symlink() or status.st_size < 1 << 16 or status.st_ino in seen:
                        continue
                    with open(path, "rb") as file:
                        if file.read(4) == b"\x7fELF":
                            seen.add(status.st_ino)
                            yield path
                except OSError:
                    continue


def debs(bench: Bench) -> list[Path]:
    """Packages in apt's cache; if there are few, some large ones are fetched."""
    found = sorted(Path("/var/cache/apt/archives").glob("*.deb"))
    if sum(path.stat().st_size for path in found) < 64 << 20:
        folder = bench.work / "debs"
        if not folder.exists():
            folder.mkdir()
            for name in ["golang-1.19-go", "llvm-14", "libllvm14", "qemu-system-x86", "docker.io"]:
                fetch = ["apt-get", "download", name]
                subprocess.run(fetch, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found += sorted(folder.glob("*.deb"))
    return found
