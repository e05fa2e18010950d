"""The lab's http server: files, a registry behind it, and every way in which the internet fails. Run as a module.

    /PATH                      a file, with ranges and an entity tag
    /v2/NAME/…                 the registry
    /fault/KIND/PATH           the same file, but it fails in a way
    /v2/fault/KIND/NAME/…      the same image, but it fails in a way (so an image's name is HOST/fault/KIND/NAME)
    /seen?PATH                 how often a path was asked for, and with which headers (JSON)

Kinds: `slow-RATE` (bytes a second), `cut-PERCENT` (the connection ends there), `503`, `429` (with Retry-After), `404`, `hang`
(no answer), `wrong` (one byte is not what it was), `short` (less than was promised), `redirect` (to this server's other
address). A kind with `-xN` at its end, like `503-x2` or `cut-50-x1`, fails only the first N times that a path is asked for.
"""

import argparse
import email.utils
import http.client
import http.server
import json
import os
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from email.message import Message
from typing import Any, BinaryIO, TextIO

Answer = tuple[int, dict[str, str], int, Iterator[bytes]]  # status, headers, length, body
CHUNK = 64 << 10
KIND = re.compile(r"(?P<name>slow|cut|503|429|404|hang|wrong|short|redirect)(?:-(?P<value>\d+k?))?(?:-x(?P<times>\d+))?")


class Seen:
    """How often each path was asked for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.requests: dict[str, dict[str, Any]] = {}

    def count(self, path: str, headers: Message) -> int:
        with self.lock:
            entry = self.requests.setdefault(path, {"count": 0, "headers": []})
            entry["count"] += 1
            entry["headers"].append(dict(headers))
            return entry["count"]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "lab"
    sys_version = ""
    server: "Server"

    def do_GET(self) -> None:
        self.answer()

    def do_HEAD(self) -> None:
        self.answer()

    def answer(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(parts.path)
        if path == "/seen":
            self.tell(
                200,
                json.dumps(
                    self.server.seen.requests.get(urllib.parse.unquote(parts.query), {"count": 0, "headers": []})
                ).encode(),
            )
            return
        count = self.server.seen.count(path, self.headers)
        fault, path = split_fault(path)
        if fault and fault["times"] and count > int(fault["times"]):
            fault = None
        if fault and self.refused(fault, path):
            return
        status, headers, length, body = self.registry(path) if path.startswith("/v2/") else self.file(path)
        if fault and fault["name"] == "wrong" and path.startswith("/v2/") and "/blobs/" not in path:
            fault = None  # a registry's lie is in what a digest names, not in its index
        self.send(fault, status, headers, length, body)

    # -- failing at once ----------------------------------------------------------------------------------------------

    def refused(self, fault: re.Match[str], path: str) -> bool:
        name, value = fault["name"], fault["value"]
        if name in ("503", "404"):
            self.tell(int(name), b"this is a fault of the lab\n")
        elif name == "429":
            self.tell(429, b"too many requests\n", {"Retry-After": value or "1"})
        elif name == "redirect":
            self.tell(307, b"", {"Location": f"http://{self.server.other}{path}"})
        elif name == "hang":
            time.sleep(float(value or 60))
            self.close_connection = True
        else:
            return False
        return True

    def tell(self, status: int, text: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    # -- what is asked for --------------------------------------------------------------------------------------------

    def file(self, path: str) -> Answer:
        full = os.path.realpath(os.path.join(self.server.root, path.lstrip("/")))
        if os.path.isdir(full):
            names = sorted(name + ("/" if os.path.isdir(os.path.join(full, name)) else "") for name in os.listdir(full))
            text = "".join(f'<a href="{name}">{name}</a>\n' for name in names).encode()
            return 200, {"Content-Type": "text/html"}, len(text), iter([text])
        try:
            opened = open(full, "rb")
        except OSError:
            return 404, {}, 0, iter([])
        facts = os.fstat(opened.fileno())
        tag = f'"{facts.st_size:x}-{facts.st_mtime_ns:x}"'
        headers = {
            "Content-Type": "application/octet-stream",
            "Accept-Ranges": "bytes",
            "ETag": tag,
            "Last-Modified": email.utils.formatdate(facts.st_mtime, usegmt=True),
        }
        if self.headers.get("If-None-Match") == tag:
            return 304, headers, 0, iter([])
        start, end, status = 0, facts.st_size, 200
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if found and self.headers.get("If-Range", tag) == tag:
            start, end = int(found[1]), min(int(found[2]) + 1 if found[2] else facts.st_size, facts.st_size)
            if start >= facts.st_size:
                return 416, {"Content-Range": f"bytes */{facts.st_size}"}, 0, iter([])
            status, headers["Content-Range"] = 206, f"bytes {start}-{end - 1}/{facts.st_size}"
        opened.seek(start)
        return status, headers, end - start, chunks(opened, end - start)

    def registry(self, path: str) -> Answer:
        connection = http.client.HTTPConnection(self.server.registry, timeout=30)
        passed = {
            key: ", ".join(self.headers.get_all(key, []))
            for key in ("Accept", "Range", "If-Range", "If-None-Match")
            if key in self.headers
        }
        query = urllib.parse.urlsplit(self.path).query
        try:
            connection.request(self.command, urllib.parse.quote(path) + (f"?{query}" if query else ""), headers=passed)
            answer = connection.getresponse()
        except OSError:
            return 502, {}, 0, iter([])
        headers = {
            key: value
            for key, value in answer.getheaders()
            if key.lower() not in ("content-length", "connection", "transfer-encoding", "date")
        }
        length = int(answer.getheader("Content-Length") or 0)
        return answer.status, headers, length, chunks(answer, length)

    # -- answering ----------------------------------------------------------------------------------------------------

    def send(
        self, fault: re.Match[str] | None, status: int, headers: dict[str, str], length: int, body: Iterator[bytes]
    ) -> None:
        name, value = (fault["name"], fault["value"]) if fault else (None, None)
        self.send_response(status)
        for key, text in headers.items():
            self.send_header(key, text)
        if status != 304:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command == "HEAD":
            return
        limit = length * int(value or 50) // 100 if name == "cut" else length - 1 if name == "short" and length else length
        rate = number(value or "100k") if name == "slow" else None
        sent = 0
        for chunk in body:
            chunk = chunk[: limit - sent]
            if name == "wrong" and sent == 0 and chunk:
                chunk = chunk[:-1] + bytes([chunk[-1] ^ 1])
            for piece in (
                (chunk[at : at + rate // 10 + 1] for at in range(0, len(chunk), rate // 10 + 1)) if rate else [chunk]
            ):
                self.wfile.write(piece)
                if rate:
                    time.sleep(len(piece) / rate)
            sent += len(chunk)
            if sent >= limit:
                break
        if limit < length:
            self.wfile.flush()
            self.close_connection = True
            if name == "cut":  # not an orderly end: the peer gets a reset
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def log_message(self, form: str, *words: object) -> None:
        self.server.log.write(f"{self.client_address[0]} {form % words}\n")
        self.server.log.flush()


def split_fault(path: str) -> tuple[re.Match[str] | None, str]:
    """`/fault/KIND/rest` or `/v2/fault/KIND/rest` to the kind and the path without it."""
    found = re.match(r"(/v2)?/fault/([^/]+)(/.*)", path)
    kind = KIND.fullmatch(found[2]) if found else None
    return (kind, (found[1] or "") + found[3]) if found and kind else (None, path)


def number(text: str) -> int:
    return int(text[:-1]) * 1000 if text.endswith("k") else int(text)


def chunks(source: BinaryIO | http.client.HTTPResponse, length: int) -> Iterator[bytes]:
    with source:
        while length > 0:
            chunk = source.read(min(CHUNK, length))
            if not chunk:
                return
            length -= len(chunk)
            yield chunk


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    root: str
    registry: str
    other: str
    seen: Seen
    log: TextIO

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that went away is nothing to report


def serve(address: str, root: str, registry: str, other: str, log: str) -> None:
    host, _, port = address.rpartition(":")
    server = Server((host, int(port)), Handler)
    server.root, server.registry, server.other, server.seen, server.log = root, registry, other, Seen(), open(log, "a")
    server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("address", "root", "registry", "other", "log"):
        parser.add_argument(f"--{name}", required=True)
    chosen = parser.parse_args()
    servers = [
        threading.Thread(target=serve, args=(address, chosen.root, chosen.registry, chosen.other, chosen.log))
        for address in (chosen.address, chosen.other)
    ]
    for thread in servers:
        thread.start()
