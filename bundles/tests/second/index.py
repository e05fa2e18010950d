"""The index: its shape, and everything that it must obey."""

import hashlib
import itertools
import json
import re
from typing import Any

Index = dict[str, Any]
Item = dict[str, Any]
KIND_OF_ROOM = {"pkg": "pkg", "bin": "bin", "file": "file", "dir": "dir", "image": "image", "addons": "addon"}
DESTINATIONS = (
    "/usr/bin/",
    "/usr/local/bin/",
    "/opt/cni/bin/",
    "/usr/libexec/cni/",
    "/etc/kubernetes/",
    "/usr/lib/systemd/system/",
    "/etc/systemd/system/",
    "/etc/cni/net.d/",
    "/tmp/",
)
CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
UNPLAIN = re.compile(r"[\\\0-\x1f\x7f-\x9f]")
NOTHING = hashlib.sha256().hexdigest()


class Refused(ValueError):
    pass


def need(condition: object, message: str) -> None:
    if not condition:
        raise Refused(message)


# What values look like: a pattern for texts, int, a list of one, or a record, where a key with `?` may be missing and
# one with `??` may also be null.
DIGEST = "(sha256:)?[0-9A-Fa-f]{64}"
TEXT, WORD, ARCH = "(?s:.*)", "[A-Za-z0-9_+~:][A-Za-z0-9._+~:-]{0,127}", "amd64|arm64"
ROLE = "etcd|loadbalance|master|worker|node"
SHAPE = {
    "format": int,
    "name": WORD,
    "version": WORD,
    "archs": [ARCH],
    "parent??": DIGEST,
    "carried?": [DIGEST],
    "items": [
        {
            "path": TEXT,
            "arch": ARCH,
            "kind": "|".join(KIND_OF_ROOM.values()),
            "name": TEXT,
            "version?": TEXT,
            "size": int,
            "sha256": DIGEST,
            "roles?": [ROLE],
            "dst??": TEXT,
            "mode??": int,
            "link??": TEXT,
            "requires?": [TEXT],
            "source?": {"url??": TEXT, "repo??": TEXT, "key??": TEXT},
        }
    ],
    "images?": [
        {
            "name": TEXT,
            "arch": ARCH,
            "manifest": DIGEST,
            "media_type": TEXT,
            "config": DIGEST,
            "layers": [DIGEST],
            "roles?": [ROLE],
        }
    ],
    "baselines?": [{"arch": ARCH, "format": "deb|rpm", "name": TEXT, "packages": [TEXT], "meets?": [TEXT]}],
    "sbom??": {"size": int, "sha256": DIGEST},
}


def shaped(value: Any, shape: Any, where: str) -> Any:
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
        return {
            key: shaped(inner, known[key][1], f"{where}.{key}")
            for key, inner in value.items()
            if not (known[key][0] == 2 and inner is None)
        }
    if shape is int:
        need(type(value) is int, f"{where} is no number")
        return value
    need(isinstance(value, str) and re.fullmatch(shape, value), f"{where} is {value!r}")
    value.encode()  # fails for half a surrogate pair, which JSON can write and UTF-8 cannot
    return value.removeprefix("sha256:").lower() if shape is DIGEST else value


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    need(len(dict(pairs)) == len(pairs), f"a key stands twice: {[key for key, _ in pairs]}")
    return dict(pairs)


def natural(literal: str) -> int:
    need(literal.isdecimal(), f"`{literal}` is no number of this format")
    return int(literal)


def parse_index(data: bytes) -> Index:
    source = data.decode("utf-8")
    loose = json.loads(source)  # another format may have other rules, so its number is looked at before these
    found = loose.get("format") if isinstance(loose, dict) else None
    need(type(found) is int and found == 1, f"format {found!r} is not known")
    strict = json.loads(source, object_pairs_hook=unique, parse_int=natural, parse_float=natural, parse_constant=natural)
    index = shaped(strict, SHAPE, "index")
    check_index(index)
    return index


def check_index(index: Index) -> None:
    items, archs = index["items"], index["archs"]
    need("parent" not in index, "this is a delta, which this program does not read")
    need(not index.get("carried"), "`carried` without `parent`")
    need(archs and len(set(archs)) == len(archs), "archs: none, or one twice")
    need(len(items) <= 200_000, "over 200,000 items")
    need("sbom" not in index or index["sbom"]["size"] <= 1 << 40, "sbom: over 1 TiB")
    paths = [item["path"].encode() for item in items]
    need(all(a < b for a, b in itertools.pairwise(paths)), "items: paths do not ascend strictly")
    known = set(paths)
    sizes: dict[str, int] = {}
    for item, path in zip(items, paths, strict=True):
        check_item(item)
        need(item["arch"] in archs, f"{item['path']}: the bundle is not for its arch")
        need(
            known.isdisjoint(path[: slash.start()] for slash in re.finditer(b"/", path)),
            f"{item['path']}: another item is its folder",
        )
        need(sizes.setdefault(item["sha256"], item["size"]) == item["size"], f"{item['path']}: two sizes of one sha256")
    blobs = {(item["arch"], item["sha256"]) for item in items if item["kind"] == "image"}
    for image in index.get("images", []):
        for blob in [image["manifest"], image["config"], *image["layers"]]:
            need((image["arch"], blob) in blobs, f"image {image['name']}: no item {blob} for {image['arch']}")


def check_item(item: Item) -> None:
    path, parts = item["path"], item["path"].split("/")
    need(max(len(part.encode()) for part in parts) <= 255 and len(path.encode()) <= 1024, f"{path}: too long")
    need(not {"", ".", ".."} & set(parts) and not UNPLAIN.search(path), f"{path!r}: not a plain path")
    need(
        len(parts) > 2 and parts[0] == item["arch"] and KIND_OF_ROOM.get(parts[1]) == item["kind"],
        f"{path}: does not fit arch or kind",
    )
    need(item["size"] <= 1 << 40, f"{path}: over 1 TiB")
    need(item.get("mode", 0) <= 0o777, f"{path}: mode over 777")
    if parts[1:4] == ["image", "blobs", "sha256"]:
        need(parts[4:] == [item["sha256"]], f"{path}: not called by its sha256")
    if "link" in item:
        target = item["link"]
        need(item["kind"] == "dir" and len(parts) > 3, f"{path}: no link may stand here")
        need(item["size"] == 0 and item["sha256"] == NOTHING, f"{path}: a link with content")
        need(
            1 <= len(target.encode()) <= 1024 and target[0] != "/" and not UNPLAIN.search(target),
            f"{path}: link to {target!r}",
        )
        steps = [step for step in target.split("/") if step not in ("", ".")]
        ups = steps.count("..")
        need(".." not in steps[ups:] and ups <= len(parts) - 4, f"{path}: the link to {target} leads outside")
    if "dst" in item:
        steps = [step for step in item["dst"].split("/") if step not in ("", ".")]
        need(
            item["dst"].startswith("/")
            and ".." not in steps
            and not CONTROL.search(item["dst"])
            and f"/{'/'.join(steps)}/".startswith(DESTINATIONS),
            f"{path}: dst {item['dst']!r} is not allowed",
        )
    scheme, found, rest = item.get("source", {}).get("url", "").partition("://")
    host = re.split(r"[/\\?#]", rest.lstrip("/\\"))[0]
    need(not found or scheme.lower() == "file" or "@" not in host, f"{path}: a user in source.url")
