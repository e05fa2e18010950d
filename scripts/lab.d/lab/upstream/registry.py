"""A real OCI registry (Debian's docker-registry), filled once; each lab serves a copy that its tests may write to."""

import http.client
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
from typing import NamedTuple

from .. import rootfs
from ..process import LabError, need, run, say
from ..settings import Lab, cache
from . import catalogue
from .images import INDEX, MANIFEST, Image, sha256


class Answer(NamedTuple):
    status: int
    location: str | None
    text: bytes


def storage() -> str:
    """The filled storage that every lab's registry starts from."""
    with rootfs.locked("upstream-registry"):
        images, digest = catalogue.images()
        path = cache("upstream", f"registry-{digest}")
        if not os.path.isdir(path):
            say(f"upstream: filling the registry ({', '.join(f'{image.name}:{image.tag}' for image in images)})")
            part = tempfile.mkdtemp(prefix="registry-", dir=os.path.dirname(path))
            with temporary(part) as address:
                for image in images:
                    push(address, image)
            os.rename(part, path)
    return path


def configuration(folder: str, address: str) -> str:
    return (
        "version: 0.1\nlog: {level: warn}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder}}}, delete: {{enabled: true}}}}\n"
        f'http: {{addr: "{address}"}}\n'
    )


class temporary:
    """A registry over a folder, on a free port of the loopback, for as long as a `with` lasts."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __enter__(self) -> str:
        need("docker-registry", "docker-registry")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.config = tempfile.NamedTemporaryFile("w", suffix=".yml")
        self.config.write(configuration(self.folder, address))
        self.config.flush()
        self.process = subprocess.Popen(
            ["docker-registry", "serve", self.config.name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(address)
        return address

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()
        self.config.close()


def wait_for(address: str, patience: float = 20) -> None:
    """Until something listens there."""
    host, _, port = address.rpartition(":")
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise LabError(f"nothing listens on {address}", hint="see the logs in the lab's folder `upstream`")


def push(address: str, image: Image) -> None:
    """Blobs first, then what refers to them, then the tag."""
    connection = http.client.HTTPConnection(address, timeout=60)
    blobs, manifests, index = image.blobs_and_manifests()
    for digest, content in blobs.items():
        if request(connection, "HEAD", f"/v2/{image.name}/blobs/{digest}").status == 200:
            continue
        begun = request(connection, "POST", f"/v2/{image.name}/blobs/uploads/")
        place = urllib.parse.urlsplit(begun.location or "")
        put = request(connection, "PUT", f"{place.path}?{place.query}&digest={digest}", content, "application/octet-stream")
        expect(put, 201, f"blob of {image.name}")
    for manifest in manifests:
        expect(
            request(connection, "PUT", f"/v2/{image.name}/manifests/{sha256(manifest)}", manifest, MANIFEST),
            201,
            f"manifest of {image.name}",
        )
    expect(
        request(connection, "PUT", f"/v2/{image.name}/manifests/{image.tag}", index, INDEX),
        201,
        f"index of {image.name}",
    )
    connection.close()


def request(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None = None,
    media_type: str | None = None,
) -> Answer:
    connection.request(method, path, body=body, headers={"Content-Type": media_type} if media_type else {})
    answer = connection.getresponse()
    return Answer(answer.status, answer.getheader("Location"), answer.read())


def expect(answer: Answer, status: int, what: str) -> None:
    if answer.status != status:
        raise LabError(f"the registry answered {answer.status} to the {what}: {answer.text[:200]!r}")


def copy_for(lab: Lab) -> str:
    """The lab's own copy; what its tests pushed stays until `down`."""
    folder = lab.path("upstream", "registry")
    if not os.path.isdir(folder):
        shutil.rmtree(f"{folder}.part", ignore_errors=True)
        run("cp", "-a", "--reflink=auto", storage(), f"{folder}.part")
        os.rename(f"{folder}.part", folder)
    return folder
