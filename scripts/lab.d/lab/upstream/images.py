"""Small real images for both archs, made from what the lab has: no base image is fetched.

An image is a set of files per arch; layers, configs, manifests and the index over the archs are written here, always the
same bytes for the same files.
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"

# a path, its content (a string is the target of a link, None a folder), its mode
Entry = tuple[str, bytes | str | None, int]
Layer = list[Entry]


class Image:
    """One name and tag; `archs` maps an arch to its layers, a layer being a list of (path, content or link, mode)."""

    def __init__(self, name: str, tag: str, archs: Mapping[str, list[Layer]], config: dict[str, list[str]]) -> None:
        self.name, self.tag, self.archs, self.config = name, tag, archs, config

    def blobs_and_manifests(self) -> tuple[dict[str, bytes], list[bytes], bytes]:
        """Blobs by digest, the manifest of each arch, and the index."""
        blobs, entries, manifests = {}, [], []
        for arch, layers in self.archs.items():
            packed = [pack(layer) for layer in layers]
            facts = {
                "architecture": arch,
                "os": "linux",
                "config": self.config,
                "created": "1970-01-01T00:00:00Z",
                "rootfs": {"type": "layers", "diff_ids": [sha256(plain) for plain, _ in packed]},
                "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "lab"} for _ in packed],
            }
            config = encode(facts)
            manifest = encode(
                {
                    "schemaVersion": 2,
                    "mediaType": MANIFEST,
                    "config": descriptor(CONFIG, config),
                    "layers": [descriptor(LAYER, zipped) for _, zipped in packed],
                }
            )
            for blob in [config, *(zipped for _, zipped in packed)]:
                blobs[sha256(blob)] = blob
            manifests.append(manifest)
            entries.append(
                {
                    **descriptor(MANIFEST, manifest),
                    "platform": {"architecture": arch, "os": "linux", **({"variant": "v8"} if arch == "arm64" else {})},
                }
            )
        return blobs, manifests, encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})


def pack(layer: Layer) -> tuple[bytes, bytes]:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content, mode in layer:
            entry = tarfile.TarInfo(path)
            entry.mode = mode
            if content is None:
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return plain.getvalue(), gzip.compress(plain.getvalue(), 6, mtime=0)


def folder(path: str) -> Entry:
    return (path, None, 0o755)


def program(path: str, source: str) -> Entry:
    with open(source, "rb") as file:
        return (path, file.read(), 0o755)


def link(path: str, target: str) -> Entry:
    return (path, target, 0o777)


def text(path: str, content: str, mode: int = 0o644) -> Entry:
    return (path, content.encode(), mode)


def encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": sha256(content), "size": len(content)}


def sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()
