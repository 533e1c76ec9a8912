"""A receiver on loopback that answers as it is told, well or badly, and keeps what it got."""

import ctypes
import gzip
import json
import re
import socket
import socketserver
import ssl
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import pprof  # noqa: E402


@dataclass
class Part:
    name: str
    file_name: str
    content_type: str | None
    body: bytes


@dataclass
class Upload:
    """A request, read by a parser that shares nothing with what wrote it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float = 0.0

    def parts(self) -> list[Part]:
        boundary = re.search(r"boundary=([^;\s]+)", self.headers["content-type"])[1].encode()
        pieces = (b"\r\n" + self.body).split(b"\r\n--" + boundary)
        assert pieces[0] == b"" and pieces[-1].strip() == b"--"
        parts = []
        for piece in pieces[1:-1]:
            head, body = piece.removeprefix(b"\r\n").split(b"\r\n\r\n", 1)
            text = head.decode()
            names = re.search(r'name="([^"]*)"; filename="([^"]*)"', text)
            kind = re.search(r"Content-Type: (.*)", text)
            parts.append(Part(names[1], names[2], kind[1].strip() if kind else None, body))
        return parts

    def part(self, name: str) -> bytes:
        return next(part.body for part in self.parts() if part.name == name)

    def event(self) -> dict:
        return json.loads(self.part("event"))

    def tags(self) -> list[tuple[str, str]]:
        pairs = [tag.partition(":") for tag in self.event()["tags_profiler"].split(",")]
        return [(key, value) for key, _, value in pairs]

    def profile(self) -> pprof.Profile:
        return pprof.parse(decompress(self.part("profile.pprof")))

    def provenance(self) -> list[dict]:
        return json.loads(decompress(self.part("code-provenance.json")))["v1"]


def decompress(data: bytes) -> bytes:
    """By the magic number, as the intake does."""
    if data[:2] == b"\x1f\x8b":
        return gzip.decompress(data)
    if data[:4] == b"\x28\xb5\x2f\xfd":
        library = ctypes.CDLL("libzstd.so.1")
        library.ZSTD_decompress.restype = ctypes.c_size_t
        out = ctypes.create_string_buffer(1 << 24)
        size = library.ZSTD_decompress(
            out, ctypes.c_size_t(len(out)), data, ctypes.c_size_t(len(data))
        )
        assert size <= len(out), "not a zstd frame"
        return ctypes.string_at(out, size)
    return data


class Handler(socketserver.StreamRequestHandler):
    def read_request(self) -> Upload | None:
        line = self.rfile.readline().decode()
        if not line:
            return None
        method, path, _ = line.split()
        headers = {}
        while (header := self.rfile.readline().decode().strip()) != "":
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        return Upload(method, path, headers, body, time.monotonic())

    def handle(self) -> None:
        stub: Stub = self.server.stub
        try:
            if stub.before_reading is not None:
                stub.before_reading(self)
            request = self.read_request()
            if request is None:
                return
            if request.method == "GET":
                self.answer(200 if stub.is_pyrometer else 404, {})
                return
            stub.attempts.append(request)
            behaviour = stub.behaviour
            if callable(behaviour):
                behaviour(self, request)
            else:
                if behaviour // 100 == 2:
                    stub.uploads.append(request)
                self.answer(behaviour, stub.more_headers)
        except (ConnectionError, ValueError, ssl.SSLError):
            pass

    def answer(self, status: int, headers: dict[str, str], body: bytes = b"{}") -> None:
        lines = [f"HTTP/1.1 {status} whatever", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if self.server.stub.is_pyrometer:
            lines.append("Server: pyrometer/0.1.0")
        self.wfile.write("\r\n".join([*lines, "", ""]).encode() + body)


class Stub:
    """`behaviour` is a status, or a function (handler, request). It can change at any time."""

    def __init__(self, port: int = 0, path: str | None = None, certificate: Path | None = None):
        self.behaviour: object = 200
        self.before_reading = None
        self.more_headers: dict[str, str] = {}
        self.is_pyrometer = False
        self.attempts: list[Upload] = []
        self.uploads: list[Upload] = []
        if path is not None:
            kind, address = socketserver.ThreadingUnixStreamServer, path
        else:
            kind, address = socketserver.ThreadingTCPServer, ("127.0.0.1", port)
        server = type("Server", (kind,), {"allow_reuse_address": True, "daemon_threads": True})
        self.server = server(address, Handler)
        self.server.stub = self
        self.secure = certificate is not None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def port(self) -> int:
        return self.server.server_address[1]

    @property
    def url(self) -> str:
        return f"http{'s' if self.secure else ''}://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
