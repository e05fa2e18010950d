"""Build, build of compressed payload, verify, read one item."""
import os
import pathlib
import shutil
import subprocess
import sys

# Where a machine has real payload: packages that apt fetched, and programs.
PROGRAMS = ["/usr/bin", "/usr/lib", "/usr/local"]


def rows(bench):
    if not bench.need("tar", "pigz", "sha256sum", "gzip"):
        return
    pack = bench.build("eggo-bundles", "--example", "pack") / "examples/pack"
    mixed = payload(bench, "mixed", programs=bench.options.size // 2)
    packed = payload(bench, "packed", programs=0)
    for folder in (mixed, packed):
        subprocess.run([pack, "index", folder, f"{folder}.tar.gz"], check=True)

    bench.row(
        "build",
        ours=[pack, "seal", mixed, f"{mixed}.tar.gz"],
        theirs=[
            f"tar cf - -C {mixed} . | pigz -1 > {bench.work}/theirs.tar.gz",
            f"find {mixed} -type f -print0 | xargs -0 sha256sum > {bench.work}/sums",
        ],
        limit=0.3,
    )
    bench.row(
        "build, compressed payload",
        ours=[pack, "seal", packed, f"{packed}.tar.gz"],
        theirs=[sys.executable, "-c", READ_HASH_WRITE, packed, bench.work / "copy"],
        limit=1.3,
    )
    bundle = f"{mixed}.tar.gz"
    subprocess.run([pack, "seal", mixed, bundle], check=True, stderr=subprocess.DEVNULL)
    extracted = bench.work / "extracted"
    bench.row(
        "verify",
        ours=[pack, "verify", bundle],
        theirs=f"rm -rf {extracted} && mkdir {extracted} && tar xzf {bundle} -C {extracted} "
        f"&& cd {extracted} && sha256sum -c --quiet SHA256SUMS",
        limit=0.2,
    )
    last = sorted(path.relative_to(mixed) for path in mixed.rglob("*") if path.is_file())[-1]
    item = f"amd64/file/{last}"
    bench.row(
        "read one item",
        ours=[pack, "read", bundle, item],
        theirs=["tar", "xzOf", bundle, item],
        limit=0.01,
    )


# The least that a build of payload which cannot shrink must do, by the fastest tool at hand.
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


def payload(bench, name, programs):
    """A folder of `bench.options.size` MiB: `programs` MiB of ELF files, the rest .debs."""
    folder = bench.work / name
    folder.mkdir()
    size = bench.options.size << 20
    filled = take(folder, elf_files(), programs << 20)
    filled += take(folder, debs(bench), size - filled)
    # What the machine has is not enough: the same again under other bytes.
    copy = 0
    while filled < size:
        copy += 1
        for path in sorted(folder.iterdir()):
            if filled >= size:
                break
            if not path.name.startswith("copy-"):
                data = path.read_bytes() + str(copy).encode()
                (folder / f"copy-{copy}-{path.name}").write_bytes(data)
                filled += len(data)
    return folder


def take(folder, files, size):
    filled = 0
    for number, path in enumerate(files):
        if filled >= size:
            break
        shutil.copyfile(path, folder / f"{number:05}-{path.name}")
        filled += path.stat().st_size
    return filled


def elf_files():
    seen = set()
    for top in PROGRAMS:
        for parent, _, names in os.walk(top):
            for name in sorted(names):
                path = pathlib.Path(parent) / name
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


def debs(bench):
    """Packages in apt's cache; if there are few, some large ones are fetched."""
    found = sorted(pathlib.Path("/var/cache/apt/archives").glob("*.deb"))
    if sum(path.stat().st_size for path in found) < 64 << 20:
        folder = bench.work / "debs"
        folder.mkdir(exist_ok=True)
        names = ["linux-image-amd64", "golang-1.19-go", "llvm-14", "libllvm14", "qemu-system-x86", "docker.io"]
        for name in names:
            subprocess.run(["apt-get", "download", name], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found += sorted(folder.glob("*.deb"))
    return found
