#!/usr/bin/env python3
"""A second reader and writer of full bundles, made from docs/format.md alone.

bundle.py verify BUNDLE KEY.pub     prints `ok: N items`, or exits 1 with one line that says what is wrong
bundle.py write FOLDER KEY OUT      packs FOLDER/ARCH/ROOM/…, signed by a key without a password

Calls `minisign`, and `zstd` for debs that need it. Refuses deltas and parts.
"""

import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from content import LOOKED_AT, MIB, check_content, contents_to_look_at
from index import KIND_OF_ROOM, NOTHING, Index, Item, Refused, check_index, need, parse_index

Records = list[tuple[int, int]]  # length and CRC-32 of each member
MEMBER_HEAD, EXTRA_HEAD = bytes.fromhex("1f8b08000000000000ff"), bytes.fromhex("1f8b08040000000000ff")
MAGIC, FOOTER_SIZE, BLOCK_RECORDS = b"EGGO\1\0\0\0", 82, 1024
INDEX, SIGNATURE, SUMS, SBOM = "eggo-bundle.json", "eggo-bundle.json.minisig", "SHA256SUMS", "sbom.spdx.json"


# What reader and writer share: tar headers, SHA256SUMS, table and footer


def padded(size: int) -> int:
    return -(-size // 512) * 512


def header_block(path: bytes, mode: int, size: int, kind: bytes, target: bytes) -> bytes:
    length = b"%011o\0" % size if size < 8 << 30 else b"\x80\0\0\0" + size.to_bytes(8, "big")
    start = path[:100].ljust(100, b"\0") + b"%07o\0" % mode + b"0000000\0" * 2 + length + b"0" * 11 + b"\0"
    end = kind + target[:100].ljust(100, b"\0") + b"ustar  \0" + bytes(247)
    return start + b"%06o\0 " % (sum(start) + sum(end) + 8 * ord(" ")) + end


def header(path: str, mode: int, size: int, kind: bytes = b"0", target: str = "") -> bytes:
    name, link, blocks = path.encode(), target.encode(), b""
    for text, long_kind in (link, b"K"), (name, b"L"):
        if len(text) > 100:
            blocks += header_block(b"././@LongLink", 0o644, len(text) + 1, long_kind, b"")
            blocks += text.ljust(padded(len(text) + 1), b"\0")
    return blocks + header_block(name, mode, size, kind, link)


def item_entries(index: Index) -> Iterator[tuple[Item, bytes, bool]]:
    """Each item with its header blocks, and whether it carries its content itself."""
    carriers: dict[str, str] = {}
    for item in index["items"]:
        path, sha256 = item["path"], item["sha256"]
        mode = item.get("mode", 0o755 if item["kind"] == "bin" else 0o644)
        if "link" in item:
            yield item, header(path, mode, 0, b"2", item["link"]), False
        elif sha256 in carriers:
            yield item, header(path, mode, 0, b"1", carriers[sha256]), False
        else:
            carriers[sha256] = path
            yield item, header(path, mode, item["size"]), True


def sums(index_bytes: bytes, signature: bytes, index: Index) -> bytes:
    files = [(hashlib.sha256(index_bytes).hexdigest(), INDEX), (hashlib.sha256(signature).hexdigest(), SIGNATURE)]
    files += [(index["sbom"]["sha256"], SBOM)] if "sbom" in index else []
    files += [(item["sha256"], item["path"]) for item in index["items"] if "link" not in item]
    return "".join(f"{sha256}  {path}\n" for sha256, path in files).encode()


def empty_member(name: bytes, data: bytes) -> bytes:
    return EXTRA_HEAD + struct.pack("<H2sH", len(data) + 4, name, len(data)) + data + b"\3\0" + bytes(8)


def table_and_footer(records: Records) -> bytes:
    packed = b"".join(struct.pack("<QI", length, crc) for length, crc in records)
    step = BLOCK_RECORDS * 12
    table = b"".join(empty_member(b"ET", packed[at : at + step]) for at in range(0, len(packed), step))
    start = MAGIC + struct.pack("<QQ", sum(length for length, _ in records), len(records))
    return table + empty_member(b"EF", start + hashlib.sha256(table + start).digest())


def minisign(index_bytes: bytes, signature: bytes | None, *arguments: str) -> bytes:
    """Verifies `signature`, or makes one if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        message, proof = Path(folder, INDEX), Path(folder, SIGNATURE)
        message.write_bytes(index_bytes)
        if signature is not None:
            proof.write_bytes(signature)
        done = subprocess.run(
            ["minisign", "-m", message, "-x", proof, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        need(done.returncode == 0, "minisign: " + " ".join((done.stderr + done.stdout).split()))
        return proof.read_bytes()


# Reading


class Reader:
    def __init__(self, file: BinaryIO) -> None:
        """Reads table and footer, which must be, byte for byte, what their own numbers make them."""
        self.file, self.used, size = file, 0, file.seek(0, os.SEEK_END)
        need(size >= FOOTER_SIZE, "too short for a bundle")
        file.seek(size - FOOTER_SIZE)
        footer = file.read()
        need(footer[16:24] == MAGIC, "no footer of format 1 at its end")
        offset, count = struct.unpack_from("<QQ", footer, 24)
        need(count <= 4_194_304, "too many members")
        table_size = 12 * count + 26 * -(-count // BLOCK_RECORDS)
        need(size == offset + table_size + FOOTER_SIZE, "the table does not fit the file")
        file.seek(offset)
        table = file.read(table_size)
        step = BLOCK_RECORDS * 12 + 26
        packed = b"".join(table[at : at + step][16:-10] for at in range(0, len(table), step))
        self.records = list(struct.iter_unpack("<QI", packed))
        need(table_and_footer(self.records) == table + footer, "table or footer is damaged")
        need(all(length <= 2 * MIB for length, _ in self.records), "a member over 2 MiB")
        file.seek(0)

    def piece(self) -> bytes:
        where = f"member {self.used}"
        need(self.used < len(self.records), "too few members")
        length, crc = self.records[self.used]
        self.used += 1
        member = self.file.read(length)
        need(zlib.crc32(member) == crc, f"{where}: not the table's CRC-32")
        need(member.startswith(MEMBER_HEAD), f"{where}: another gzip header")
        inflater = zlib.decompressobj(-15)
        try:
            piece = inflater.decompress(member[len(MEMBER_HEAD) :], MIB + 1)
        except zlib.error as error:
            raise Refused(f"{where}: {error}") from error
        need(
            inflater.eof and inflater.unused_data == struct.pack("<II", zlib.crc32(piece), len(piece)),
            f"{where}: does not end with its trailer",
        )
        return piece

    def entry(self, path: str, head: bytes, size: int, keep: int = 0, first: bytes | None = None) -> tuple[str, bytes]:
        """Reads an entry, of which the first piece may be known. Returns the content's sha256 and first bytes."""
        content, start, left = hashlib.sha256(), bytearray(), len(head) + padded(size)
        while left:
            piece = first or self.piece()
            need(len(piece) == min(left, MIB), f"{path}: a piece of another length")
            need(piece.startswith(head), f"{path}: its header blocks are not what the index makes them")
            left -= len(piece)
            body, padding = piece[len(head) : len(head) + size], piece[len(head) + size :]
            need(not any(padding), f"{path}: its padding is not zero")
            content.update(body)
            start += body[: keep - len(start)]
            size, head, first = size - len(body), b"", None
        return content.hexdigest(), bytes(start)

    def root_file(self, path: str, limit: int) -> bytes:
        """Before there is an index, an entry's own header says how long it is."""
        first = self.piece()
        need(re.fullmatch(b"[0-7]{11}", first[124:135]), f"{path} is not where it must be")
        size = int(first[124:135], 8)
        need(size <= limit, f"{path}: over {limit} bytes")
        return self.entry(path, header(path, 0o644, size), size, size, first)[1]


def verify(bundle: str, public_key: str) -> int:
    with open(bundle, "rb") as file:
        reader = Reader(file)
        index_bytes = reader.root_file(INDEX, 64 * MIB)
        signature = reader.root_file(SIGNATURE, 16 * 1024)
        minisign(index_bytes, signature, "-V", "-p", public_key)
        index = parse_index(index_bytes)
        listing = sums(index_bytes, signature, index)
        root_files = [(SUMS, len(listing), hashlib.sha256(listing).hexdigest())]
        root_files += [(SBOM, index["sbom"]["size"], index["sbom"]["sha256"])] if "sbom" in index else []
        entries = [(path, header(path, 0o644, size), size, sha256) for path, size, sha256 in root_files]
        entries += [
            (item["path"], head, *((item["size"], item["sha256"]) if carried else (0, NOTHING)))
            for item, head, carried in item_entries(index)
        ]
        members = sum(-(-(len(head) + padded(size)) // MIB) for _, head, size, _ in entries)
        need(reader.used + members + 1 == len(reader.records), "the number of members is not what the index makes it")
        looked_at = contents_to_look_at(index)
        for path, head, size, sha256 in entries:
            kind, items = looked_at.pop(sha256, ("", []))
            found, start = reader.entry(path, head, size, LOOKED_AT.get(kind, 0))
            need(found == sha256, f"{path}: not its sha256")
            if kind:
                check_content(kind, items, start)
        need(reader.piece() == bytes(1024), "the archive does not end with 1024 zeros")
    return len(index["items"])


# Writing


def write(folder: str, key: str, out: str) -> int:
    items = sorted(find_items(Path(folder)), key=lambda item: item["path"].encode())
    archs = sorted({item["arch"] for item in items})
    index = {"format": 1, "name": "second", "version": "1", "archs": archs, "items": items}
    check_index(index)
    index_bytes = (json.dumps(index, indent=2, ensure_ascii=False) + "\n").encode()
    signature = minisign(index_bytes, None, "-S", "-s", key, "-t", f"eggo bundle second 1 {','.join(archs)}")
    with open(out, "wb") as file:
        records: Records = []
        for path, content in (INDEX, index_bytes), (SIGNATURE, signature), (SUMS, sums(index_bytes, signature, index)):
            write_entry(file, records, header(path, 0o644, len(content)), content)
        for item, head, carried in item_entries(index):
            write_entry(file, records, head, Path(folder, item["path"]).read_bytes() if carried else b"")
        write_entry(file, records, b"", bytes(1024))
        file.write(table_and_footer(records))
    return len(items)


def find_items(folder: Path) -> Iterator[Item]:
    for file in folder.glob("*/*/**/*"):
        if file.is_dir() and not file.is_symlink():
            continue
        path = file.relative_to(folder).as_posix()
        arch, room, name = path.split("/")[:3]
        content, mode = b"" if file.is_symlink() else file.read_bytes(), file.lstat().st_mode & 0o777
        item = {
            "path": path,
            "arch": arch,
            "kind": KIND_OF_ROOM.get(room, room),
            "name": name,
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        if file.is_symlink():
            item["link"] = os.readlink(file)
        elif mode != (0o755 if room == "bin" else 0o644):
            item["mode"] = mode
        yield item


def write_entry(file: BinaryIO, records: Records, head: bytes, content: bytes) -> None:
    stream = head + content.ljust(padded(len(content)), b"\0")
    for at in range(0, len(stream), MIB):
        piece = stream[at : at + MIB]
        deflater = zlib.compressobj(wbits=-15)
        trailer = struct.pack("<II", zlib.crc32(piece), len(piece))
        member = MEMBER_HEAD + deflater.compress(piece) + deflater.flush() + trailer
        records.append((len(member), zlib.crc32(member)))
        file.write(member)


def main(arguments: list[str]) -> None:
    try:
        match arguments:
            case ["verify", bundle, public_key]:
                count = verify(bundle, public_key)
            case ["write", folder, key, out]:
                count = write(folder, key, out)
            case _:
                sys.exit(__doc__)
        print(f"ok: {count} items")
    except (ValueError, OSError, RecursionError) as error:
        sys.exit(f"refused: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main(sys.argv[1:])
