#!/usr/bin/env python3
"""A second reader and writer of full bundles, made from docs/format.md alone.

bundle.py verify BUNDLE KEY.pub     prints `ok: N items`, or exits 1 with one line that says what is wrong
bundle.py write FOLDER KEY OUT      packs FOLDER/ARCH/ROOM/…, signed by a key without a password

Calls `minisign`, and `zstd` for debs that need it. Refuses deltas and parts.
"""
import gzip, hashlib, io, json, lzma, os, re, struct, subprocess, sys, tarfile, tempfile, zlib
from pathlib import Path

MIB = 1 << 20
MEMBER_HEAD, EXTRA_HEAD = bytes.fromhex("1f8b08000000000000ff"), bytes.fromhex("1f8b08040000000000ff")
MAGIC, FOOTER_SIZE, BLOCK_RECORDS = b"EGGO\1\0\0\0", 82, 1024
INDEX, SIGNATURE, SUMS, SBOM = "eggo-bundle.json", "eggo-bundle.json.minisig", "SHA256SUMS", "sbom.spdx.json"
KIND_OF_ROOM = {"pkg": "pkg", "bin": "bin", "file": "file", "dir": "dir", "image": "image", "addons": "addon"}
DESTINATIONS = ("/usr/bin/", "/usr/local/bin/", "/opt/cni/bin/", "/usr/libexec/cni/", "/etc/kubernetes/",
                "/usr/lib/systemd/system/", "/etc/systemd/system/", "/etc/cni/net.d/", "/tmp/")
CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
UNPLAIN = re.compile(r"[\\\0-\x1f\x7f-\x9f]")
NOTHING = hashlib.sha256().hexdigest()


class Refused(ValueError):
    pass


def need(condition, message):
    if not condition:
        raise Refused(message)


# What reader and writer share: tar headers, SHA256SUMS, table and footer

def padded(size):
    return -(-size // 512) * 512


def header_block(path, mode, size, kind, target):
    length = b"%011o\0" % size if size < 8 << 30 else b"\x80\0\0\0" + size.to_bytes(8, "big")
    start = path[:100].ljust(100, b"\0") + b"%07o\0" % mode + b"0000000\0" * 2 + length + b"0" * 11 + b"\0"
    end = kind + target[:100].ljust(100, b"\0") + b"ustar  \0" + bytes(247)
    return start + b"%06o\0 " % (sum(start) + sum(end) + 8 * ord(" ")) + end


def header(path, mode, size, kind=b"0", target=""):
    path, target, blocks = path.encode(), target.encode(), b""
    for text, long_kind in (target, b"K"), (path, b"L"):
        if len(text) > 100:
            blocks += header_block(b"././@LongLink", 0o644, len(text) + 1, long_kind, b"")
            blocks += text.ljust(padded(len(text) + 1), b"\0")
    return blocks + header_block(path, mode, size, kind, target)


def item_entries(index):
    """Each item with its header blocks, and whether it carries its content itself."""
    carriers = {}
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


def sums(index_bytes, signature, index):
    files = [(hashlib.sha256(index_bytes).hexdigest(), INDEX), (hashlib.sha256(signature).hexdigest(), SIGNATURE)]
    files += [(index["sbom"]["sha256"], SBOM)] if "sbom" in index else []
    files += [(item["sha256"], item["path"]) for item in index["items"] if "link" not in item]
    return "".join(f"{sha256}  {path}\n" for sha256, path in files).encode()


def empty_member(name, data):
    return EXTRA_HEAD + struct.pack("<H2sH", len(data) + 4, name, len(data)) + data + b"\3\0" + bytes(8)


def table_and_footer(records):
    packed = b"".join(struct.pack("<QI", length, crc) for length, crc in records)
    step = BLOCK_RECORDS * 12
    table = b"".join(empty_member(b"ET", packed[at:at + step]) for at in range(0, len(packed), step))
    start = MAGIC + struct.pack("<QQ", sum(length for length, _ in records), len(records))
    return table + empty_member(b"EF", start + hashlib.sha256(table + start).digest())


def minisign(index_bytes, signature, *arguments):
    """Verifies `signature`, or makes one if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        message, proof = Path(folder, INDEX), Path(folder, SIGNATURE)
        message.write_bytes(index_bytes)
        if signature is not None:
            proof.write_bytes(signature)
        done = subprocess.run(["minisign", "-m", message, "-x", proof, *arguments], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace")
        need(done.returncode == 0, "minisign: " + " ".join((done.stderr + done.stdout).split()))
        return proof.read_bytes()


# The index

# What values look like: a pattern for texts, int, a list of one, or a record, where a key with `?` may be missing and
# one with `??` may also be null.
DIGEST = "(sha256:)?[0-9A-Fa-f]{64}"
TEXT, WORD, ARCH = "(?s:.*)", "[A-Za-z0-9_+~:][A-Za-z0-9._+~:-]{0,127}", "amd64|arm64"
ROLE = "etcd|loadbalance|master|worker|node"
SHAPE = {
    "format": int, "name": WORD, "version": WORD, "archs": [ARCH], "parent??": DIGEST, "carried?": [DIGEST],
    "items": [{
        "path": TEXT, "arch": ARCH, "kind": "|".join(KIND_OF_ROOM.values()), "name": TEXT, "version?": TEXT,
        "size": int, "sha256": DIGEST, "roles?": [ROLE], "dst??": TEXT, "mode??": int, "link??": TEXT,
        "requires?": [TEXT], "source?": {"url??": TEXT, "repo??": TEXT, "key??": TEXT}}],
    "images?": [{
        "name": TEXT, "arch": ARCH, "manifest": DIGEST, "media_type": TEXT, "config": DIGEST, "layers": [DIGEST],
        "roles?": [ROLE]}],
    "baselines?": [{"arch": ARCH, "format": "deb|rpm", "name": TEXT, "packages": [TEXT], "meets?": [TEXT]}],
    "sbom??": {"size": int, "sha256": DIGEST}}


def shaped(value, shape, where):
    """The value, which must have this shape, without nulls and with digests in one spelling."""
    if isinstance(shape, list):
        need(isinstance(value, list), f"{where} is no list")
        return [shaped(element, shape[0], f"{where}[{i}]") for i, element in enumerate(value)]
    if isinstance(shape, dict):
        need(isinstance(value, dict), f"{where} is no object")
        known = {key.rstrip("?"): (key.count("?"), inner) for key, inner in shape.items()}
        need(value.keys() <= known.keys(), f"{where} has unknown keys: {sorted(value.keys() - known.keys())}")
        needed = {key for key, (marks, _) in known.items() if not marks}
        need(needed <= value.keys(), f"{where} lacks keys: {sorted(needed - value.keys())}")
        return {key: shaped(inner, known[key][1], f"{where}.{key}") for key, inner in value.items()
                if not (known[key][0] == 2 and inner is None)}
    if shape is int:
        need(type(value) is int, f"{where} is no number")
        return value
    need(isinstance(value, str) and re.fullmatch(shape, value), f"{where} is {value!r}")
    value.encode()  # fails for half a surrogate pair, which JSON can write and UTF-8 cannot
    return value.removeprefix("sha256:").lower() if shape is DIGEST else value


def unique(pairs):
    need(len(dict(pairs)) == len(pairs), f"a key stands twice: {[key for key, _ in pairs]}")
    return dict(pairs)


def natural(literal):
    need(literal.isdecimal(), f"`{literal}` is no number of this format")
    return int(literal)


def parse_index(data):
    source = data.decode("utf-8")
    loose = json.loads(source)  # another format may have other rules, so its number is looked at before these
    found = loose.get("format") if isinstance(loose, dict) else None
    need(type(found) is int and found == 1, f"format {found!r} is not known")
    strict = json.loads(source, object_pairs_hook=unique,
                        parse_int=natural, parse_float=natural, parse_constant=natural)
    index = shaped(strict, SHAPE, "index")
    check_index(index)
    return index


def check_index(index):
    items, archs = index["items"], index["archs"]
    need("parent" not in index, "this is a delta, which this program does not read")
    need(not index.get("carried"), "`carried` without `parent`")
    need(archs and len(set(archs)) == len(archs), "archs: none, or one twice")
    need(len(items) <= 200_000, "over 200,000 items")
    need("sbom" not in index or index["sbom"]["size"] <= 1 << 40, "sbom: over 1 TiB")
    paths = [item["path"].encode() for item in items]
    need(all(a < b for a, b in zip(paths, paths[1:])), "items: paths do not ascend strictly")
    known, sizes = set(paths), {}
    for item, path in zip(items, paths):
        check_item(item)
        need(item["arch"] in archs, f"{item['path']}: the bundle is not for its arch")
        need(known.isdisjoint(path[:slash.start()] for slash in re.finditer(b"/", path)),
             f"{item['path']}: another item is its folder")
        need(sizes.setdefault(item["sha256"], item["size"]) == item["size"], f"{item['path']}: two sizes of one sha256")
    blobs = {(item["arch"], item["sha256"]) for item in items if item["kind"] == "image"}
    for image in index.get("images", []):
        for blob in [image["manifest"], image["config"], *image["layers"]]:
            need((image["arch"], blob) in blobs, f"image {image['name']}: no item {blob} for {image['arch']}")


def check_item(item):
    path, parts = item["path"], item["path"].split("/")
    need(max(len(part.encode()) for part in parts) <= 255 and len(path.encode()) <= 1024, f"{path}: too long")
    need(not {"", ".", ".."} & set(parts) and not UNPLAIN.search(path), f"{path!r}: not a plain path")
    need(len(parts) > 2 and parts[0] == item["arch"] and KIND_OF_ROOM.get(parts[1]) == item["kind"],
         f"{path}: does not fit arch or kind")
    need(item["size"] <= 1 << 40, f"{path}: over 1 TiB")
    need(item.get("mode", 0) <= 0o777, f"{path}: mode over 777")
    if parts[1:4] == ["image", "blobs", "sha256"]:
        need(parts[4:] == [item["sha256"]], f"{path}: not called by its sha256")
    if "link" in item:
        target = item["link"]
        need(item["kind"] == "dir" and len(parts) > 3, f"{path}: no link may stand here")
        need(item["size"] == 0 and item["sha256"] == NOTHING, f"{path}: a link with content")
        need(1 <= len(target.encode()) <= 1024 and target[0] != "/" and not UNPLAIN.search(target),
             f"{path}: link to {target!r}")
        steps = [step for step in target.split("/") if step not in ("", ".")]
        ups = steps.count("..")
        need(".." not in steps[ups:] and ups <= len(parts) - 4, f"{path}: the link to {target} leads outside")
    if "dst" in item:
        steps = [step for step in item["dst"].split("/") if step not in ("", ".")]
        need(item["dst"].startswith("/") and ".." not in steps and not CONTROL.search(item["dst"])
             and f"/{'/'.join(steps)}/".startswith(DESTINATIONS), f"{path}: dst {item['dst']!r} is not allowed")
    scheme, found, rest = item.get("source", {}).get("url", "").partition("://")
    host = re.split(r"[/\\?#]", rest.lstrip("/\\"))[0]
    need(not found or scheme.lower() == "file" or "@" not in host, f"{path}: a user in source.url")


# What content is made for

# In the order in which shared content is read, with how much of its beginning is looked at; of a package, two rpm
# headers with all that they may have.
LOOKED_AT = {"pkg": 136 * MIB, "bin": 20, "dir": 20, "config": 8 * MIB + 1}
DEB_MAGIC, RPM_MAGIC, RPM_HEADER_MAGIC = b"!<arch>\n", b"\xed\xab\xee\xdb", b"\x8e\xad\xe8\1\0\0\0\0"
RPM_TAGS = (1000, 1001, 1002, 1022)  # name, version, release, arch
SPELLINGS = {"amd64": "amd64", "x86_64": "amd64", "x86-64": "amd64", "arm64": "arm64", "aarch64": "arm64"}


def contents_to_look_at(index):
    """By sha256: as what such content is read, and the items whose arch it must fit."""
    configs, found = {image["config"] for image in index.get("images", [])}, {}
    for item in index["items"]:
        kind = "config" if item["kind"] == "image" and item["sha256"] in configs else item["kind"]
        if kind in LOOKED_AT and "link" not in item:
            found.setdefault(item["sha256"], []).append((list(LOOKED_AT).index(kind), item))
    return {sha256: (list(LOOKED_AT)[min(rank for rank, _ in users)], [item for _, item in users])
            for sha256, users in found.items()}


def check_content(kind, items, start):
    try:
        arch = elf_arch(kind, start) if kind in ("bin", "dir") else named_arch(kind, start)
    except (ValueError, LookupError, TypeError, EOFError, OSError, RecursionError,
            struct.error, zlib.error, lzma.LZMAError, tarfile.TarError) as error:
        raise Refused(f"{items[0]['path']}: {error}")
    for item in items:
        need(arch in (None, item["arch"]), f"{item['path']}: its content is for {arch}")


def elf_arch(kind, start):
    if len(start) < 20 or not start.startswith((b"\x7fELF\1", b"\x7fELF\2")):
        return None
    elf_type, machine = struct.unpack_from(">HH" if start[5] == 2 else "<HH", start, 16)
    arch = {62: "amd64", 183: "arm64"}.get(machine) if start[4] == 2 else None
    if kind == "dir":
        return arch if elf_type in (2, 3) else None
    need(arch, f"ELF for machine {machine}")
    return arch


def named_arch(kind, start):
    if kind == "config":
        need(len(start) < LOOKED_AT[kind], "a configuration over 8 MiB")
        name, for_both = json.loads(start.decode("utf-8"), parse_constant=natural)["architecture"], ()
    elif start.startswith(DEB_MAGIC):
        name, for_both = deb_arch(start), ("all",)
    else:
        need(start.startswith(RPM_MAGIC), "neither deb nor rpm")
        name, for_both = rpm_arch(start), ("noarch",)
    if name in for_both:
        return None
    need(isinstance(name, str) and name.lower() in SPELLINGS, f"unknown arch {name!r}")
    return SPELLINGS[name.lower()]


def deb_arch(deb):
    at = len(DEB_MAGIC)
    for _ in range(8):
        head = re.fullmatch(rb"(.{16}).{32}(\d{1,10}) *`\n", deb[at:at + 60], re.DOTALL)
        need(head and len(head[0]) == 60, "a damaged deb, or one without control.tar")
        name, size = head[1].decode().rstrip(" ").removesuffix("/"), int(head[2])
        if re.fullmatch(r"control\.tar(\.(gz|xz|zst))?", name):
            need(size <= 32 * MIB, "control.tar over 32 MiB")
            fields = control_fields(unpacked(name, deb[at + 60:at + 60 + size]))
            need(all(fields.get(key) for key in ("package", "version", "architecture")), "control lacks a field")
            return fields["architecture"]
        need(not name.startswith("data.tar"), "a deb with data before control.tar")
        need(size <= MIB, f"{name} in a deb over 1 MiB")
        at += 60 + size + size % 2
    raise Refused("no control.tar among a deb's first 8 members")


def unpacked(name, packed):
    limit = 256 * MIB
    if name.endswith(".gz"):
        return gzip.GzipFile(fileobj=io.BytesIO(packed)).read(limit)
    if name.endswith(".xz"):
        return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(packed, limit)
    if name.endswith(".zst"):
        return subprocess.run(f"zstd -dcq | head -c {limit}", shell=True, input=packed, stdout=subprocess.PIPE).stdout
    return packed


def control_fields(archive):
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r|") as tar:
        for member in tar:
            if member.name.removeprefix("./") == "control" and member.isfile():
                need(member.size <= 4 * MIB, "control over 4 MiB")
                paragraph = re.split(r"^\s*$", tar.extractfile(member).read().decode("utf-8"), 1, re.MULTILINE)[0]
                lines = [line for line in paragraph.split("\n") if line and line[0] not in " \t#"]
                need(all(":" in line for line in lines), "control has a line without a field")
                return {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    raise Refused("a deb without control")


def rpm_arch(rpm):
    signature_end, _ = rpm_header(rpm, 96)
    _, texts = rpm_header(rpm, -(-signature_end // 8) * 8)
    need(all(texts.get(tag) for tag in RPM_TAGS), "an rpm without name, version, release or arch")
    return texts[1022].decode("utf-8")


def rpm_header(rpm, at):
    """Where it ends, and the first text of each tag that matters."""
    magic, entries, size = struct.unpack_from(">8sII", rpm, at)
    need(magic == RPM_HEADER_MAGIC, "an rpm with a damaged header")
    need(entries <= 65_536 and size <= 64 * MIB, "an rpm with a header that is too large")
    data, texts = at + 16 + 16 * entries, {}
    need(data + size <= len(rpm), "an rpm whose header is cut off")
    for tag, kind, offset, count in struct.iter_unpack(">4I", rpm[at + 16:data]):
        need(kind == 7 or count <= 1_048_576, "an rpm with too many values in its header")
        if tag in RPM_TAGS and tag not in texts and kind in (6, 8, 9) and count:
            texts[tag] = rpm[data + offset:data + size].partition(b"\0")[0]
    return data + size, texts


# Reading

class Reader:
    def __init__(self, file):
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
        packed = b"".join(table[at:at + step][16:-10] for at in range(0, len(table), step))
        self.records = list(struct.iter_unpack("<QI", packed))
        need(table_and_footer(self.records) == table + footer, "table or footer is damaged")
        need(all(length <= 2 * MIB for length, _ in self.records), "a member over 2 MiB")
        file.seek(0)

    def piece(self):
        where = f"member {self.used}"
        need(self.used < len(self.records), "too few members")
        length, crc = self.records[self.used]
        self.used += 1
        member = self.file.read(length)
        need(zlib.crc32(member) == crc, f"{where}: not the table's CRC-32")
        need(member.startswith(MEMBER_HEAD), f"{where}: another gzip header")
        inflater = zlib.decompressobj(-15)
        try:
            piece = inflater.decompress(member[len(MEMBER_HEAD):], MIB + 1)
        except zlib.error as error:
            raise Refused(f"{where}: {error}")
        need(inflater.eof and inflater.unused_data == struct.pack("<II", zlib.crc32(piece), len(piece)),
             f"{where}: does not end with its trailer")
        return piece

    def entry(self, path, head, size, keep=0, first=None):
        """Reads an entry, of which the first piece may be known. Returns the content's sha256 and first bytes."""
        content, start, left = hashlib.sha256(), bytearray(), len(head) + padded(size)
        while left:
            piece = first or self.piece()
            need(len(piece) == min(left, MIB), f"{path}: a piece of another length")
            need(piece.startswith(head), f"{path}: its header blocks are not what the index makes them")
            left -= len(piece)
            body, padding = piece[len(head):len(head) + size], piece[len(head) + size:]
            need(not any(padding), f"{path}: its padding is not zero")
            content.update(body)
            start += body[:keep - len(start)]
            size, head, first = size - len(body), b"", None
        return content.hexdigest(), bytes(start)

    def root_file(self, path, limit):
        """Before there is an index, an entry's own header says how long it is."""
        first = self.piece()
        need(re.fullmatch(b"[0-7]{11}", first[124:135]), f"{path} is not where it must be")
        size = int(first[124:135], 8)
        need(size <= limit, f"{path}: over {limit} bytes")
        return self.entry(path, header(path, 0o644, size), size, size, first)[1]


def verify(bundle, public_key):
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
        entries += [(item["path"], head, *((item["size"], item["sha256"]) if carried else (0, NOTHING)))
                    for item, head, carried in item_entries(index)]
        members = sum(-(-(len(head) + padded(size)) // MIB) for _, head, size, _ in entries)
        need(reader.used + members + 1 == len(reader.records), "the number of members is not what the index makes it")
        looked_at = contents_to_look_at(index)
        for path, head, size, sha256 in entries:
            kind, items = looked_at.pop(sha256, (None, []))
            found, start = reader.entry(path, head, size, LOOKED_AT.get(kind, 0))
            need(found == sha256, f"{path}: not its sha256")
            if kind:
                check_content(kind, items, start)
        need(reader.piece() == bytes(1024), "the archive does not end with 1024 zeros")
    return len(index["items"])


# Writing

def write(folder, key, out):
    items = sorted(find_items(Path(folder)), key=lambda item: item["path"].encode())
    archs = sorted({item["arch"] for item in items})
    index = {"format": 1, "name": "second", "version": "1", "archs": archs, "items": items}
    check_index(index)
    index_bytes = (json.dumps(index, indent=2, ensure_ascii=False) + "\n").encode()
    signature = minisign(index_bytes, None, "-S", "-s", key, "-t", f"eggo bundle second 1 {','.join(archs)}")
    with open(out, "wb") as file:
        records = []
        for path, content in (INDEX, index_bytes), (SIGNATURE, signature), (SUMS, sums(index_bytes, signature, index)):
            write_entry(file, records, header(path, 0o644, len(content)), content)
        for item, head, carried in item_entries(index):
            write_entry(file, records, head, Path(folder, item["path"]).read_bytes() if carried else b"")
        write_entry(file, records, b"", bytes(1024))
        file.write(table_and_footer(records))
    return len(items)


def find_items(folder):
    for file in folder.glob("*/*/**/*"):
        if file.is_dir() and not file.is_symlink():
            continue
        path = file.relative_to(folder).as_posix()
        arch, room, name = path.split("/")[:3]
        content, mode = b"" if file.is_symlink() else file.read_bytes(), file.lstat().st_mode & 0o777
        item = {"path": path, "arch": arch, "kind": KIND_OF_ROOM.get(room, room), "name": name, "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest()}
        if file.is_symlink():
            item["link"] = os.readlink(file)
        elif mode != (0o755 if room == "bin" else 0o644):
            item["mode"] = mode
        yield item


def write_entry(file, records, head, content):
    stream = head + content.ljust(padded(len(content)), b"\0")
    for at in range(0, len(stream), MIB):
        piece = stream[at:at + MIB]
        deflater = zlib.compressobj(wbits=-15)
        trailer = struct.pack("<II", zlib.crc32(piece), len(piece))
        member = MEMBER_HEAD + deflater.compress(piece) + deflater.flush() + trailer
        records.append((len(member), zlib.crc32(member)))
        file.write(member)


def main(arguments):
    command = {("verify", 3): verify, ("write", 4): write}.get((arguments[0] if arguments else "", len(arguments)))
    if not command:
        sys.exit(__doc__)
    try:
        print(f"ok: {command(*arguments[1:])} items")
    except (ValueError, OSError, RecursionError) as error:
        sys.exit(f"refused: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main(sys.argv[1:])
