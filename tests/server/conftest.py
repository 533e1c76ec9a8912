"""What the server's tests share: a running `pyrometer serve`, a client that hides nothing, and
profiles made with the independent codec (tests/support/pprof.py)."""

import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import pprof  # noqa: E402

SECOND = 10**9
TYPES = [
    ("cpu-time", "nanoseconds"),
    ("cpu-samples", "count"),
    ("wall-time", "nanoseconds"),
    ("exception-samples", "count"),
]


def program():
    """The installed program, or what PYROMETER_PROGRAM names."""
    found = os.environ.get("PYROMETER_PROGRAM") or shutil.which("pyrometer")
    assert found, "no pyrometer on PATH: install the package, or set PYROMETER_PROGRAM"
    return found


def run(*arguments, **settings):
    return subprocess.run(
        [program(), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **settings,
    )


class Answer:
    def __init__(self, response):
        self.code = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)


class Server:
    """A server on a free port of this machine; it says where it listens."""

    def __init__(self, folder, *options, listen="127.0.0.1:0"):
        self.folder = Path(folder)
        command = [program(), "serve", "--listen", listen, "--data", str(folder), *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        line = self.process.stdout.readline().decode()
        if not line.startswith("pyrometer serves at "):
            rest = self.process.communicate(timeout=30)
            raise AssertionError(f"{line}{rest}")
        self.url = line.split()[-1]
        self.port = urllib.parse.urlsplit(self.url).port

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def ask(self, method, path, body=None, headers=None, **arguments):
        query = urllib.parse.urlencode(arguments, doseq=True)
        connection = self.connect()
        try:
            target = f"{path}?{query}" if query else path
            connection.request(method, target, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **arguments):
        answer = self.ask("GET", path, **arguments)
        assert answer.code == 200, (answer.code, answer.body)
        return answer.json

    def upload(self, profile, **labels):
        labels.setdefault("service", "shop")
        body = profile if isinstance(profile, bytes) else pprof.write(profile)
        return self.ask("POST", "/api/upload", body, **labels)

    def stop(self, how=signal.SIGTERM):
        """Ends the server; its exit code and what it wrote on standard error."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        error = self.process.communicate(timeout=30)[1].decode()
        return self.process.returncode, error


@pytest.fixture
def server(tmp_path):
    """A server with an empty store; that it ends well is part of every test."""
    server = Server(tmp_path / "store")
    try:
        yield server
    finally:
        code, error = server.stop()
    assert (code, error) == (0, "")


NOW = int(time.time()) * SECOND


def make_profile(seed, start_ns=None, samples=60, functions=20, seconds=60, moments=True):
    """A made-up window: some functions, threads and states, with moments and numeric labels."""
    draw = random.Random(seed)
    start_ns = NOW - 600 * SECOND if start_ns is None else start_ns
    profile = pprof.Profile(
        list(TYPES),
        time_ns=start_ns,
        duration_ns=seconds * SECOND,
        period_type=TYPES[0],
        period=10**7,
        default_type="cpu-time",
        main_binary="/usr/bin/python3",
    )
    for _ in range(samples):
        stack = [
            (
                f"function_{draw.randrange(functions)}",
                draw.choice(["/app/a.py", "/app/b é.py", "/x/site-packages/flask/app.py"]),
                draw.randrange(1, 200),
            )
            for _ in range(draw.randrange(0, 12))
        ]
        labels = {"thread name": f"worker-{draw.randrange(3)}", "state": draw.choice(["io", "cpu"])}
        if moments:
            labels["thread native id"] = 100 + int(labels["thread name"][-1])
            labels["end_timestamp_ns"] = start_ns + draw.randrange(seconds * SECOND)
        looks = draw.randrange(1, 4)
        values = {
            "cpu-time": draw.randrange(3) * draw.randrange(10**7),
            "cpu-samples": looks,
            "wall-time": draw.randrange(10**8),
            "exception-samples": int(draw.random() < 0.1),
        }
        if values["exception-samples"]:
            labels["exception type"] = draw.choice(["ValueError", "KeyError"])
        profile.samples.append(pprof.Sample(stack, values, labels))
    return profile


def multipart(parts):
    boundary = uuid.uuid4().hex
    body = b""
    for name, file_name, data in parts:
        body += (
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; '
            f'filename="{file_name}"\r\nContent-Type: application/octet-stream\r\n\r\n'
        ).encode()
        body += data + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def iso(time_ns):
    whole, rest = divmod(time_ns, SECOND)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{rest:09d}Z"


def send_datadog(server, profile, tags="service:shop,env:prod,version:2.0,process_id:7", **more):
    event = {
        "attachments": ["profile.pprof"],
        "tags_profiler": tags,
        "start": iso(profile.time_ns),
        "end": iso(profile.time_ns + profile.duration_ns),
        "family": "python",
        "version": "4",
        **more.pop("event", {}),
    }
    parts = [("event", "event.json", json.dumps(event).encode())]
    if "document" in more:
        parts.append(("pyrometer.json", "pyrometer.json", json.dumps(more["document"]).encode()))
    parts.append(("profile.pprof", "profile.pprof", pprof.write(profile)))
    body, kind = multipart(parts)
    return server.ask("POST", "/profiling/v1/input", body, {"Content-Type": kind})
