"""Starts a server under the profiler, loads it, ends it, and holds what its workers delivered
against their own clocks."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

import pprof  # noqa: E402

OURS = ("PYROMETER_", "DD_", "OTEL_")
CLIENTS = 4
ENOUGH = 1.5  # seconds of the busy handler, in each worker
MOST_REQUESTS = 400
START_SECONDS = 60
END_SECONDS = 60
UNEVEN = 0.02  # a share is known less well where a worker had little to do


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@dataclass
class Worker:
    pid: str
    truth: dict
    profiles: list = field(default_factory=list)
    documents: list = field(default_factory=list)

    def cpu(self, function=None):
        if function is None:
            return sum(one.total("cpu-time") for one in self.profiles) / 1e9
        rows = [one.by_function("cpu-time").get(function, (0, 0)) for one in self.profiles]
        return sum(total for _, total in rows) / 1e9


class Place:
    """A folder of one server: its environment, its profiles, what its workers say of themselves."""

    def __init__(self, folder: Path, packages: Path):
        self.folder = folder
        self.packages = packages
        self.port = free_port()
        self.log = folder / "log"
        (folder / "truth").mkdir()
        (folder / "broker" / "control").mkdir(parents=True)

    def environment(self, **more):
        clean = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
        own = next(path for path in sys.path if path.endswith("site-packages"))
        found = next(self.packages.glob("lib/python*/site-packages"))
        return {
            **clean,
            "PYTHONPATH": os.pathsep.join([str(HERE), str(found), own]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TRUTH": str(self.folder / "truth"),
            "BROKER": str(self.folder / "broker"),
            "PYROMETER_OUTPUT_PPROF": str(self.folder / "out" / "app"),
            "PYROMETER_EXIT_TIMEOUT": "10s",  # machines are busy, and disks too
            # So that two seconds of a worker are enough to tell its shares to some points.
            "PYROMETER_SAMPLING_INTERVAL": "3ms",
            "PYROMETER_OVERHEAD_PCT": "20",
            **more,
        }

    def start(self, command, profiled=True, **more):
        program = Path(sys.executable).with_name("pyrometer")
        self.output = self.log.open("a")
        return subprocess.Popen(
            [program, "run", *command] if profiled else command,
            cwd=self.folder,
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
            start_new_session=True,
        )

    def run(self, *words):
        """A program beside the server, not profiled."""
        subprocess.run(
            [sys.executable, *words],
            env=self.environment(PYROMETER_ENABLED="false"),
            check=True,
            timeout=60,
        )

    def ask(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            return ""
        finally:
            connection.close()

    def answers(self):
        return self.ask("/other") != ""

    def truths(self):
        truths = {}
        for file in (self.folder / "truth").iterdir():
            if not file.name.endswith("~"):
                truths[file.name] = json.loads(file.read_text())
        return truths

    def total(self, kind="busy"):
        return sum(truth[kind] for truth in self.truths().values())

    def workers(self):
        workers = []
        for pid, truth in self.truths().items():
            worker = Worker(pid, truth)
            for file in sorted((self.folder / "out").glob(f"app.{pid}.*.pprof")):
                worker.profiles.append(pprof.parse(file.read_bytes()))
            worker.documents = self.documents(pid)
            workers.append(worker)
        return workers

    def documents(self, pid):
        files = (self.folder / "out").glob(f"app.{pid}.*.json")
        return [json.loads(file.read_text()) for file in files]

    def load(self, workers=2, between=None):
        """Requests until each of so many workers had enough; `between` is done once, half-way."""
        asked = []
        over = threading.Event()

        def client():
            while not over.is_set() and len(asked) < MOST_REQUESTS:
                path = "/busy" if len(asked) % 2 else "/other"
                asked.append(path)
                if self.ask(path) == "":
                    time.sleep(0.02)

        clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for thread in clients:
            thread.start()
        deadline = time.monotonic() + 120
        while any(thread.is_alive() for thread in clients) and time.monotonic() < deadline:
            truths = self.truths().values()
            if between is not None and sum(truth["busy"] for truth in truths) > ENOUGH:
                between()
                between = None
            if sum(truth["busy"] >= ENOUGH for truth in truths) >= workers and between is None:
                break
            time.sleep(0.05)
        over.set()
        for thread in clients:
            thread.join()

    def end(self, process, number=signal.SIGTERM):
        """Seconds that a graceful stop takes."""
        begin = time.monotonic()
        process.send_signal(number)
        try:
            process.wait(END_SECONDS)
            seconds = time.monotonic() - begin
            self.end_rest(process.pid)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            self.output.close()
        return seconds

    def end_rest(self, group):
        """What a server without a master leaves behind is ended in the same way."""

        def is_over():
            try:
                os.killpg(group, signal.SIGTERM)
            except ProcessLookupError:
                return True
            return False

        if not is_over():
            wait_until(is_over, END_SECONDS, "workers go on")

    def text(self):
        return self.log.read_text(errors="replace")


def check(place, least_workers=2, linked=True, together=False):
    """Every worker delivered, and its busy handler has the share of CPU that it had."""
    text = place.text()
    assert "Traceback" not in text and "WORKER TIMEOUT" not in text, text
    assert not re.search(r"pyrometer[^\n]*(off|not)\b", text), text
    workers = place.workers()
    assert len(workers) >= least_workers, text
    ids = {}
    for worker in workers:
        assert worker.profiles, (worker, text)
        for document in worker.documents:
            identity = document["identity"]
            ids.setdefault(identity["runtime_id"], set()).add(worker.pid)
            assert str(identity["pid"]) == worker.pid
            # The child of a process that was profiled names it.
            for file in place.documents(worker.truth["parent"]) if linked else []:
                assert identity["parent_runtime_id"] == file["identity"]["runtime_id"]
    assert all(len(pids) == 1 for pids in ids.values()) and len(ids) >= len(workers)
    sums = [(worker.truth, worker) for worker in workers]
    if together:
        groups = [workers]
    else:
        groups = [[worker] for _, worker in sums]
    for group in groups:
        busy = sum(worker.truth["busy"] for worker in group)
        used = sum(worker.truth["process"] for worker in group)
        true_share = busy / used
        total = sum(worker.cpu() for worker in group)
        share = sum(worker.cpu("busy_handler") for worker in group) / total
        tolerance = 0.05 + (UNEVEN if busy < ENOUGH else 0)
        seen = f"busy {busy:.2f} of {used:.2f} s; seen {share:.3f} of {total:.2f}"
        print(seen, f"true {true_share:.3f}", f"workers {len(group)}")
        if busy >= 0.5:
            assert abs(share - true_share) < tolerance, seen
    total = sum(worker.cpu() for worker in workers)
    used = sum(worker.truth["process"] for worker in workers)
    # Before the profiler starts in a new process, it has started the interpreter; after the last
    # request it ends.
    slack = 0.15 * len(workers)
    assert 0.95 * used - slack < total < 1.05 * used + slack, (used, total)
