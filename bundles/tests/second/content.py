"""What the content of packages, programs and image configurations says it is made for."""

import gzip
import io
import json
import lzma
import re
import struct
import subprocess
import tarfile
import zlib

from index import Index, Item, Refused, natural, need

MIB = 1 << 20
# In the order in which shared content is read, with how much of its beginning is looked at; of a package, two rpm
# headers with all that they may have.
LOOKED_AT = {"pkg": 136 * MIB, "bin": 20, "dir": 20, "config": 8 * MIB + 1}
DEB_MAGIC, RPM_MAGIC, RPM_HEADER_MAGIC = b"!<arch>\n", b"\xed\xab\xee\xdb", b"\x8e\xad\xe8\1\0\0\0\0"
RPM_TAGS = (1000, 1001, 1002, 1022)  # name, version, release, arch
SPELLINGS = {"amd64": "amd64", "x86_64": "amd64", "x86-64": "amd64", "arm64": "arm64", "aarch64": "arm64"}


def contents_to_look_at(index: Index) -> dict[str, tuple[str, list[Item]]]:
    """By sha256: as what such content is read, and the items whose arch it must fit."""
    configs = {image["config"] for image in index.get("images", [])}
    found: dict[str, list[tuple[int, Item]]] = {}
    for item in index["items"]:
        kind = "config" if item["kind"] == "image" and item["sha256"] in configs else item["kind"]
        if kind in LOOKED_AT and "link" not in item:
            found.setdefault(item["sha256"], []).append((list(LOOKED_AT).index(kind), item))
    return {
        sha256: (list(LOOKED_AT)[min(rank for rank, _ in users)], [item for _, item in users])
        for sha256, users in found.items()
    }


def check_content(kind: str, items: list[Item], start: bytes) -> None:
    try:
        arch = elf_arch(kind, start) if kind in ("bin", "dir") else named_arch(kind, start)
    except (
        ValueError,
        LookupError,
        TypeError,
        EOFError,
        OSError,
        RecursionError,
        struct.error,
        zlib.error,
        lzma.LZMAError,
        tarfile.TarError,
    ) as error:
        raise Refused(f"{items[0]['path']}: {error}") from error
    for item in items:
        need(arch in (None, item["arch"]), f"{item['path']}: its content is for {arch}")


def elf_arch(kind: str, start: bytes) -> str | None:
    if len(start) < 20 or not start.startswith((b"\x7fELF\1", b"\x7fELF\2")):
        return None
    elf_type, machine = struct.unpack_from(">HH" if start[5] == 2 else "<HH", start, 16)
    arch = {62: "amd64", 183: "arm64"}.get(machine) if start[4] == 2 else None
    if kind == "dir":
        return arch if elf_type in (2, 3) else None
    need(arch, f"ELF for machine {machine}")
    return arch


def named_arch(kind: str, start: bytes) -> str | None:
    for_both = None
    if kind == "config":
        need(len(start) < LOOKED_AT[kind], "a configuration over 8 MiB")
        name = json.loads(start.decode("utf-8"), parse_constant=natural)["architecture"]
    elif start.startswith(DEB_MAGIC):
        name, for_both = deb_arch(start), "all"
    else:
        need(start.startswith(RPM_MAGIC), "neither deb nor rpm")
        name, for_both = rpm_arch(start), "noarch"
    if for_both and name == for_both:
        return None
    need(isinstance(name, str) and name.lower() in SPELLINGS, f"unknown arch {name!r}")
    return SPELLINGS[name.lower()]


def deb_arch(deb: bytes) -> str:
    at = len(DEB_MAGIC)
    for _ in range(8):
        head = re.fullmatch(rb"(.{16}).{32}(\d{1,10}) *`\n", deb[at : at + 60], re.DOTALL)
        if not head or len(head[0]) != 60:
            raise Refused("a damaged deb, or one without control.tar")
        name, size = head[1].decode().rstrip(" ").removesuffix("/"), int(head[2])
        if re.fullmatch(r"control\.tar(\.(gz|xz|zst))?", name):
            need(size <= 32 * MIB, "control.tar over 32 MiB")
            fields = control_fields(unpacked(name, deb[at + 60 : at + 60 + size]))
            need(all(fields.get(key) for key in ("package", "version", "architecture")), "control lacks a field")
            return fields["architecture"]
        need(not name.startswith("data.tar"), "a deb with data before control.tar")
        need(size <= MIB, f"{name} in a deb over 1 MiB")
        at += 60 + size + size % 2
    raise Refused("no control.tar among a deb's first 8 members")


def unpacked(name: str, packed: bytes) -> bytes:
    limit = 256 * MIB
    if name.endswith(".gz"):
        return gzip.GzipFile(fileobj=io.BytesIO(packed)).read(limit)
    if name.endswith(".xz"):
        return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(packed, limit)
    if name.endswith(".zst"):
        return subprocess.run(f"zstd -dcq | head -c {limit}", shell=True, input=packed, stdout=subprocess.PIPE).stdout
    return packed


def control_fields(archive: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r|") as tar:
        for member in tar:
            if member.name.removeprefix("./") == "control" and member.isfile():
                need(member.size <= 4 * MIB, "control over 4 MiB")
                file = tar.extractfile(member)
                control = file.read().decode("utf-8") if file else ""
                paragraph = re.split(r"^\s*$", control, maxsplit=1, flags=re.MULTILINE)[0]
                lines = [line for line in paragraph.split("\n") if line and line[0] not in " \t#"]
                need(all(":" in line for line in lines), "control has a line without a field")
                return {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    raise Refused("a deb without control")


def rpm_arch(rpm: bytes) -> str:
    signature_end, _ = rpm_header(rpm, 96)
    _, texts = rpm_header(rpm, -(-signature_end // 8) * 8)
    need(all(texts.get(tag) for tag in RPM_TAGS), "an rpm without name, version, release or arch")
    return texts[1022].decode("utf-8")


def rpm_header(rpm: bytes, at: int) -> tuple[int, dict[int, bytes]]:
    """Where it ends, and the first text of each tag that matters."""
    magic, entries, size = struct.unpack_from(">8sII", rpm, at)
    need(magic == RPM_HEADER_MAGIC, "an rpm with a damaged header")
    need(entries <= 65_536 and size <= 64 * MIB, "an rpm with a header that is too large")
    data = at + 16 + 16 * entries
    texts: dict[int, bytes] = {}
    need(data + size <= len(rpm), "an rpm whose header is cut off")
    for tag, kind, offset, count in struct.iter_unpack(">4I", rpm[at + 16 : data]):
        need(kind == 7 or count <= 1_048_576, "an rpm with too many values in its header")
        if tag in RPM_TAGS and tag not in texts and kind in (6, 8, 9) and count:
            texts[tag] = rpm[data + offset : data + size].partition(b"\0")[0]
    return data + size, texts
