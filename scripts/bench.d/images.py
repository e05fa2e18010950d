"""Pulling both archs of images to blobs and a layout, against `skopeo copy --all`."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench import Bench


def rows(bench: Bench) -> None:
    if bench.options.only and bench.options.only not in "pull images" or not bench.need("docker-registry", "skopeo"):
        return
    program = bench.programs() / "examples/pull_images"
    source = bench.work / "images-source"
    make_layout(source, bench.options.size)
    config = bench.work / "registry.yml"
    config.write_text(
        "version: 0.1\nlog: {level: info, formatter: text}\n"
        f"storage: {{filesystem: {{rootdirectory: {bench.work}/registry}}}}\nhttp: {{addr: '127.0.0.1:0'}}\n"
    )
    registry = subprocess.Popen(
        ["docker-registry", "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    said: Iterable[str] = registry.stderr or []
    try:
        line = next(line for line in said if "listening on " in line)
        # Its log must be read, or it stands still.
        threading.Thread(target=lambda: [None for _ in said], daemon=True).start()
        address = line.split("listening on ")[1].split('"')[0].split(",")[0].split()[0]
        image = f"{address}/bench/image:1"
        copy = ["skopeo", "copy", "-q", "--all"]
        subprocess.run([*copy, "--dest-tls-verify=false", f"oci:{source}:1", f"docker://{image}"], check=True)
        ours, theirs = bench.work / "images-ours", bench.work / "images-theirs"
        bench.row(
            "pull images",
            against="`skopeo copy --all`",
            ours=[["rm", "-rf", ours], [program, ours, image]],
            theirs=[
                ["rm", "-rf", theirs],
                [*copy, "--src-tls-verify=false", f"docker://{image}", f"oci:{theirs}:1"],
            ],
            limit=0.55,
        )
    finally:
        registry.terminate()
        registry.wait()


def make_layout(folder: Path, mebibytes: int) -> None:
    """Two archs, four layers each, one of them shared; content that hardly compresses, as layers are."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    oci = "application/vnd.oci.image."
    size = mebibytes * (1 << 20) // 7
    shared = os.urandom(size)
    manifests = []
    for arch in ["amd64", "arm64"]:
        layers, diff_ids = [], []
        for content in [shared, *(os.urandom(size) for _ in range(3))]:
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w") as tar:
                info = tarfile.TarInfo("data")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            diff_ids.append("sha256:" + hashlib.sha256(out.getvalue()).hexdigest())
            layers.append(blob(gzip.compress(out.getvalue(), 1, mtime=0), oci + "layer.v1.tar+gzip"))
        config = {"architecture": arch, "os": "linux", "rootfs": {"type": "layers", "diff_ids": diff_ids}}
        manifest = {
            "schemaVersion": 2,
            "mediaType": oci + "manifest.v1+json",
            "config": blob(json.dumps(config).encode(), oci + "config.v1+json"),
            "layers": layers,
        }
        entry = blob(json.dumps(manifest).encode(), oci + "manifest.v1+json")
        manifests.append({**entry, "platform": {"architecture": arch, "os": "linux"}})
    index = {"schemaVersion": 2, "mediaType": oci + "index.v1+json", "manifests": manifests}
    entry = blob(json.dumps(index).encode(), oci + "index.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": "1"}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
