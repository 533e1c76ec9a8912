"""Starting programs under a profiler, and reading what they cost. Nothing here knows of rows."""

import atexit
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import profilers
import zstandard

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests" / "support"))
import pprof  # noqa: E402

IN_FORKY = HERE.parent / "tools" / "in_forky.sh"
CORES = sorted(os.sched_getaffinity(0))


class Failed(Exception):
    """A measured program did not do what it should; the text says what it printed."""


def pinned(core: int, command: list[str]) -> list[str]:
    """The command on one core, where there are several."""
    return ["taskset", "-c", str(CORES[core]), *command] if len(CORES) > 1 else command


# ----------------------------------------------------------------------------- workloads ----


@cache
def c_library(source: Path = HERE.parent / "tests" / "accuracy" / "native_heap.c") -> str:
    """A source as a library, built; without one, that of tests/accuracy that allocates."""
    target = Path(tempfile.mkdtemp()) / f"{source.stem}.so"
    atexit.register(shutil.rmtree, target.parent)
    command = ["gcc", "-O2", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", target, source, "-pthread"]
    subprocess.run(command, check=True)
    return str(target)


def workload(
    profiler: str,
    name: str,
    count: int,
    settle: float,
    seconds: float,
    extra: dict[str, str] | None = None,
) -> dict:
    """Runs workload.py to its end; its figures, and "files_bytes" that the profiler wrote. `extra`:
    more of its environment."""
    with tempfile.TemporaryDirectory() as folder:
        environment = profilers.environment(profiler, folder)
        environment |= {"BENCH_SETTLE": str(settle), "BENCH_SECONDS": str(seconds), **(extra or {})}
        if profiler == profilers.FLOOR:
            environment["BENCH_WAKE"] = c_library(HERE / "wake.c")
        command = [sys.executable, str(HERE / "workload.py"), name, str(count)]
        ended = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=900
        )
        try:
            return json.loads(ended.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            raise Failed(f"{name} under {profiler}: {ended.stderr[-300:]}") from None


class Held:
    """A workload that goes on until the block ends, for measurements from outside."""

    def __init__(self, process: subprocess.Popen) -> None:
        self.process = process
        self.pid = process.pid

    def ask(self, question: str = "\n") -> dict[str, float]:
        """How many operations it has done, at which time of its clock."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(question)
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@contextmanager
def held(
    profiler: str,
    name: str,
    count: int,
    prefix: tuple[str, ...] = (),
    settings: dict[str, str] | None = None,
) -> Iterator[Held]:
    """`prefix`: where Python 3.15 is, to run the workload with that."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*prefix, "/usr/bin/python3.15" if prefix else sys.executable,
             str(HERE / "workload.py"), name, str(count)],
            env=profilers.environment(profiler, folder)
            | {"BENCH_SECONDS": "0"}
            | (settings or {}),
            cwd=HERE if prefix else folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
        try:
            if process.stdout is None or process.stdout.readline().strip() != "ready":
                raise Failed(f"workload {name} under {profiler} did not start")
            yield Held(process)
        finally:
            process.kill()
            process.communicate()


def resident_kb(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def profile(path: Path) -> pprof.Profile:
    """A profile file, whoever wrote it."""
    data = path.read_bytes()
    if data[:4] == zstandard.FRAME_HEADER:
        data = gzip.compress(zstandard.ZstdDecompressor().decompressobj().decompress(data))
    return pprof.parse(data)


# ------------------------------------------------------------------------------ outside ----


def newest_python() -> tuple[str, ...] | None:
    """What runs a command where Python 3.15 is: nothing here, or the forky folder. None: absent."""
    for prefix in ((), (str(IN_FORKY),)):
        asked = [*prefix, "/usr/bin/python3.15", "-c", "import profiling.sampling"]
        try:
            if subprocess.run(asked, capture_output=True, cwd=HERE).returncode == 0:
                return prefix
        except OSError:
            pass
    return None


def attach(command: list[str]) -> float:
    """Runs an outside sampler to its end; the CPU seconds that it and its children used."""
    sampler = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=HERE
    )
    _, status, usage = os.wait4(sampler.pid, 0)
    sampler.returncode = os.waitstatus_to_exitcode(status)
    if sampler.returncode != 0:
        raise Failed(f"{command[0]} ended with {sampler.returncode}")
    return usage.ru_utime + usage.ru_stime


def system_calls(pid: int, thread_name: str, seconds: float) -> dict[str, int]:
    """System calls of one thread, by name, counted by strace for so long."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == thread_name:
            break
    else:
        raise Failed(f"no thread {thread_name}")
    tracer = subprocess.Popen(["strace", "-c", "-p", task.name], stderr=subprocess.PIPE, text=True)
    time.sleep(seconds)
    tracer.send_signal(signal.SIGINT)
    _, report = tracer.communicate(timeout=30)
    row = re.compile(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$", re.MULTILINE)
    return {name: int(calls) for calls, name in row.findall(report) if name != "total"}


# ----------------------------------------------------------------------------- services ----


class Service:
    """A one-core web service under a profiler, loaded from another core."""

    def __init__(self, profiler: str, kind: str, settings: dict[str, str] | None = None) -> None:
        self.folder = tempfile.TemporaryDirectory()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        commands = {
            "flask": ["gunicorn", "-b", f"127.0.0.1:{self.port}", "-k", "gthread", "--threads",
                      "8", "-w", "1", "--log-level", "error", "flask_service:app"],
            "starlette": ["uvicorn", "--port", str(self.port), "--log-level", "error",
                          "--no-access-log", "starlette_service:app"],
        }  # fmt: skip
        environment = profilers.environment(profiler, self.folder.name) | (settings or {})
        paths = [str(HERE), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        self.process = subprocess.Popen(
            pinned(0, [sys.executable, "-m", *commands[kind]]),
            env=environment,
            cwd=self.folder.name,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.wait_for_answer(kind, profiler)
        self.load(1)

    def wait_for_answer(self, kind: str, profiler: str) -> None:
        """gunicorn listens before its worker can answer: only an answer proves that it runs."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=60).close()
                return
            except OSError:
                time.sleep(0.1)
        self.stop()
        raise Failed(f"{kind} under {profiler} does not answer")

    def processes(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [self.process.pid, *map(int, children.split())]

    def cpu_s(self) -> float:
        """CPU seconds of all its processes, by the kernel's clocks."""
        # MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of include/linux/posix-timers.h
        return sum(time.clock_gettime(~pid << 3 | 2) for pid in self.processes())

    def resident_kb(self) -> int:
        return sum(map(resident_kb, self.processes()))

    def load(self, seconds: float, think_ms: float = 0, connections: int = 8) -> dict[str, float]:
        """Loads it; requests a second, latencies in ms, CPU in us a request."""
        before = self.cpu_s()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "-s",
                   str(HERE / "think.lua"), f"http://127.0.0.1:{self.port}/"]  # fmt: skip
        ended = subprocess.run(
            pinned(-1, command),
            env={**os.environ, "THINK_MS": str(think_ms)},
            capture_output=True,
            text=True,
        )
        used = self.cpu_s() - before
        match = re.search(r"DONE (\d+) (\d+) (\d+) (\d+) (\d+)", ended.stdout)
        # A server may close a connection that was idle for long: some errors are no failure.
        if not match or 100 * int(match[5]) >= int(match[1]):
            said = (ended.stdout + ended.stderr).strip().splitlines()
            raise Failed(f"wrk: {said[-1] if said else 'no output'}")
        requests, duration_us, p50_us, p99_us, _ = map(int, match.groups())
        return {
            "requests_per_s": requests / (duration_us / 1e6),
            "p50_ms": p50_us / 1e3,
            "p99_ms": p99_us / 1e3,
            "cpu_us": used / requests * 1e6,
        }

    def stop(self) -> None:
        """Ends it in good order, so that the last window is written."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def files(self) -> list[Path]:
        return sorted(path for path in Path(self.folder.name).rglob("*") if path.is_file())
