"""What is measured: experiments, and the rows of the targets table that each one fills.

An experiment is run several times; each run looks at every profiler once, in an order that rotates,
so that what the machine does meanwhile hits all alike. It returns figures by row and profiler.
"""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import measure
import profilers

Figures = dict[str, dict[str, float]]  # row -> profiler -> value


@dataclass
class Options:
    rounds: int = 5
    seconds: float = 5  # of one measurement
    settle: float = 3  # before it
    slices: int = 20  # of load, for each service
    slice_s: int = 2
    window_s: int = 60
    memory_s: int = 60
    without: set[str] = field(default_factory=set)

    def profilers(self, *names: str) -> list[str]:
        return [name for name in names or profilers.IN_PROCESS if name not in self.without]


@dataclass
class Row:
    title: str
    unit: str
    # Pyrometer's target: at most so much, of the value itself, or compared with another's.
    target: float | None = None
    compared: str = "value"  # value, ratio to none, more than none, ratio to ddtrace


ROWS = {
    "start": Row("start: import to running", "ms", 10),
    "memory-start": Row("memory on start", "kB", 5000),
    "busy": Row("agent CPU, 1 busy thread at depth 32", "% of a core", 0.2),
    "idle-100": Row("same, and 100 idle threads", "% of a core", 0.25),
    "idle-1000": Row("same, and 1,000 idle threads", "% of a core", 0.4),
    "crowd-100": Row("agent CPU, 100 busy threads", "% of a core", 1.0),
    "memory": Row("memory after a while, 100 idle threads", "kB", 20000, "more than none"),
    "bytes": Row("bytes a minute, saturated Flask service", "bytes", 0.5, "ratio to ddtrace"),
    "bytes-look": Row("same, bytes for each look at a thread", "bytes", 0.5, "ratio to ddtrace"),
    "flask-cpu": Row("Flask on gunicorn, CPU a request", "us", 1.02, "ratio to none"),
    "flask-p99": Row("Flask on gunicorn, p99 at 60 % load", "ms", None, "more than none"),
    "flask-memory": Row("same service, memory under that load", "kB", 20000, "more than none"),
    "starlette-cpu": Row("Starlette on uvicorn, CPU a request", "us", 1.02, "ratio to none"),
    "starlette-p99": Row("Starlette on uvicorn, p99 at 60 % load", "ms", 0.2, "more than none"),
    "starlette-memory": Row("same service, memory under that load", "kB", 20000, "more than none"),
    "alloc": Row("an object made and freed", "ns", 1.04, "ratio to none"),
    "native": Row("malloc and free in a C library, native heap on", "ns", 10, "more than none"),
    "build-1M": Row("a million objects kept, then freed: each", "ns", 1.05, "ratio to none"),
    "build-10M": Row("ten million of them: each", "ns", 1.05, "ratio to none"),
    "build-100M": Row("a hundred million of them: each", "ns", 1.05, "ratio to none"),
    "build-10M-growth": Row("each of ten million to a million", "times", 1.1, "ratio to none"),
    "build-100M-growth": Row("each of a hundred million to one", "times", 1.1, "ratio to none"),
    "lock": Row("`with lock`, a threading.Lock", "ns", 1.15, "ratio to none"),
    "rlock": Row("`with lock`, a threading.RLock", "ns", 1.15, "ratio to none"),
    "handoff": Row("two locks handed to and fro on one core", "ns", 1.03, "ratio to none"),
    "async-lock": Row("`async with lock`, an asyncio.Lock", "ns", 1.1, "ratio to none"),
    "raise": Row("an exception raised and caught", "ns", 1.21, "ratio to none"),
    "raise-deep": Row("same, through 20 frames", "ns", 1.05, "ratio to none"),
    "gc": Row("a garbage collection with nothing to collect", "ns", 1000, "more than none"),
    "calls-busy": Row("system calls a tick and thread, 100 busy threads", "calls", 2.0),
    "calls-idle": Row("system calls a tick and thread, 100 idle threads", "calls", 0.2),
    "attach-own": Row("attached from outside, 100 idle threads: sampler's own CPU", "% of a core"),
    "attach-target": Row("same: speed of the target", "% of its own"),
}


def rotated(names: list[str], turn: int) -> list[str]:
    turn %= max(len(names), 1)
    return names[turn:] + names[:turn]


def start(options: Options, turn: int) -> Figures:
    figures: Figures = {"start": {}, "memory-start": {}}
    for name in rotated(options.profilers(), turn):
        result = measure.workload(name, "start", 0, 0, 0)
        figures["start"][name] = result["start_ms"]
        figures["memory-start"][name] = result["start_kb"]
    return figures


def agent_cpu(row: str, kind: str, count: int) -> Callable[[Options, int], Figures]:
    def run(options: Options, turn: int) -> Figures:
        values = {}
        for name in rotated(options.profilers(*profilers.IN_PROCESS, profilers.FLOOR), turn):
            result = measure.workload(name, kind, count, options.settle, options.seconds)
            values[name] = result["agent_pct"]
        return {row: values}

    return run


def events(row: str, kind: str, count: int = 0) -> Callable[[Options, int], Figures]:
    """What hooks cost; the stack samplers, which take turns, as they are."""

    def run(options: Options, turn: int) -> Figures:
        values = {}
        for name in rotated(options.profilers(), turn):
            result = measure.workload(name, kind, count, 0.2, min(options.seconds, 2))
            values[name] = result["ns"]
        return {row: values}

    return run


def build(row: str, count: int) -> Callable[[Options, int], Figures]:
    """Objects that are kept; whether each costs more when there are many."""

    def run(options: Options, turn: int) -> Figures:
        figures: Figures = {row: {}, f"{row}-growth": {}}
        for name in rotated(options.profilers(), turn):
            result = measure.workload(name, "build", count, 0, 0)
            figures[row][name] = result["ns"]
            figures[f"{row}-growth"][name] = result["growth"]
        return figures

    return run


def native_allocations(options: Options, turn: int) -> Figures:
    values = {}
    for name in rotated(options.profilers("none", "pyrometer"), turn):
        extra = {"PYROMETER_NATIVE_HEAP_ENABLED": "true", "BENCH_LIBRARY": measure.c_library()}
        seconds = min(options.seconds, 2)
        values[name] = measure.workload(name, "native", 0, 0.2, seconds, extra)["ns"]
    return {"native": values}


def memory(options: Options, turn: int) -> Figures:
    """All at the same time: memory does not depend on who else runs."""
    with ExitStack() as stack:
        names = options.profilers()
        programs = {name: stack.enter_context(measure.held(name, "busy", 100)) for name in names}
        time.sleep(options.memory_s)
        return {"memory": {name: measure.resident_kb(p.pid) for name, p in programs.items()}}


def bytes_written(options: Options, turn: int) -> Figures:
    """Stacks only, with the timeline on; the first window, which is loaded to its end. On a busy
    machine profilers look less often, each in its own way: so also by the looks in the file."""
    settings = {
        "DD_PROFILING_MEMORY_ENABLED": "false",
        "DD_PROFILING_LOCK_ENABLED": "false",
        "DD_PROFILING_EXCEPTION_ENABLED": "false",
        "DD_PROFILING_TIMELINE_ENABLED": "true",
        "DD_PROFILING_UPLOAD_INTERVAL": str(options.window_s),
        "PYROMETER_TIMELINE_ENABLED": "true",
        "PYROMETER_UPLOAD_INTERVAL": str(options.window_s),
    }
    figures: Figures = {"bytes": {}, "bytes-look": {}}
    for name in rotated(options.profilers("pyrometer", "ddtrace"), turn):
        service = measure.Service(name, "flask", settings)
        try:
            service.load(options.window_s + 2)
        finally:
            service.stop()
        # NAME.PID.WINDOW.pprof, and what is written beside it. The worker's: the parent only waits.
        sizes: dict[str, int] = {}
        for path in service.files():
            _, pid, window, *_ = path.name.split(".")
            if window == "1":
                sizes[pid] = sizes.get(pid, 0) + path.stat().st_size
        if not sizes:
            raise measure.Failed(f"{name} wrote no files")
        worker = max(sizes, key=lambda pid: sizes[pid])
        (file,) = (p for p in service.files() if p.match(f"*.{worker}.1.pprof"))
        profile = measure.profile(file)
        figures["bytes"][name] = sizes[worker] * 60e9 / profile.duration_ns
        figures["bytes-look"][name] = sizes[worker] / max(profile.total("wall-samples"), 1)
    return figures


class Services:
    """One service under each profiler, all up at once; the load goes round in short slices.

    A second one without profiler, "again", shows what a ratio is worth on this machine."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.running: dict[str, measure.Service] = {}

    def __call__(self, options: Options, turn: int) -> Figures:
        if not self.running:
            settings = {"BENCH_TASKS": "2000"} if self.kind == "starlette" else {}
            for name in [*options.profilers(), profilers.CONTROL]:
                self.running[name] = measure.Service(name, self.kind, settings)
        cpu: dict[str, float] = {}
        rate: dict[str, float] = {}
        p99: dict[str, float] = {}
        for name in rotated(list(self.running), turn):
            result = self.running[name].load(options.slice_s)
            cpu[name], rate[name] = result["cpu_us"], result["requests_per_s"]
        # 60 % of what the unprofiled service can do, by connections that pause between requests.
        connections = 16
        think_ms = connections / (0.6 * rate.get("none", max(rate.values()))) * 1e3
        for name in rotated(list(self.running), turn + 1):
            result = self.running[name].load(options.slice_s, think_ms, connections)
            p99[name] = result["p99_ms"]
        memory = {name: float(service.resident_kb()) for name, service in self.running.items()}
        return {
            f"{self.kind}-cpu": cpu,
            f"{self.kind}-p99": p99,
            f"{self.kind}-memory": memory,
        }

    def end(self) -> None:
        for service in self.running.values():
            service.stop()
        self.running = {}


def system_calls(options: Options, turn: int) -> Figures:
    """A tick makes one futex call, its sleep, whatever else it does. strace makes ticks dear: the
    budget is raised, so that they keep their pace."""
    each = {}
    seconds = max(options.seconds, 3)
    raised = {"PYROMETER_OVERHEAD_PCT": "50"}
    for kind, count in (("crowd", 100), ("busy", 100), ("busy", 0)):
        with measure.held("pyrometer", kind, count, settings=raised) as program:
            time.sleep(options.settle)
            calls = measure.system_calls(program.pid, "pyrometer-stack", seconds)
        each[kind, count] = sum(calls.values()) / max(calls.get("futex", 0), 1)
    idle = (each["busy", 100] - each["busy", 0]) / 100
    return {
        "calls-busy": {"pyrometer": each["crowd", 100] / 100},
        "calls-idle": {"pyrometer": max(idle, 0.0)},
    }


# Samplers that attach from outside, at the rate of the agents inside, looking at all threads.
PY_SPY = [str(Path(sys.executable).parent / "py-spy"), "record", "-d", "SECONDS", "-r", "100"]
PY_SPY += ["-f", "raw", "-o", "OUT", "--pid", "PID"]
TACHYON = ["/usr/bin/python3.15", "-m", "profiling.sampling", "attach", "-a", "-r", "100"]
TACHYON += ["-d", "SECONDS", "--collapsed", "-o", "OUT", "PID"]


def attach(options: Options, turn: int) -> Figures:
    """The target's speed is that while it is sampled, against that just before."""
    samplers: dict[str, tuple[tuple[str, ...], list[str]]] = {"py-spy": ((), PY_SPY)}
    prefix = measure.newest_python()
    if prefix is not None:
        # Beside its target: it finds the interpreter by the paths that the target's maps name.
        beside = ["nsenter", "-t", "PID", "-m", "-r", "-w"] if prefix else []
        samplers["tachyon"] = (prefix, [*beside, *TACHYON])
    figures: Figures = {"attach-own": {}, "attach-target": {}}
    seconds = max(round(options.seconds), 3)
    for name, (place, command) in samplers.items():
        if name in options.without:
            continue
        with measure.held("none", "busy", 100, place) as program:
            known = {"SECONDS": str(seconds), "PID": str(program.pid), "OUT": "/dev/null"}
            time.sleep(options.settle)
            first = program.ask()
            time.sleep(seconds)
            second = program.ask()
            own = measure.attach([known.get(part, part) for part in command])
            third = program.ask()
        figures["attach-own"][name] = 100 * own / (third["at"] - second["at"])
        figures["attach-target"][name] = 100 * speed(second, third) / speed(first, second)
    return figures


def speed(begin: dict[str, float], end: dict[str, float]) -> float:
    return (end["operations"] - begin["operations"]) / (end["at"] - begin["at"])


@dataclass
class Experiment:
    run: Callable[[Options, int], Figures]
    rows: list[str]
    rounds: Callable[[Options], int] = lambda options: options.rounds
    end: Callable[[], None] = lambda: None


def experiments() -> list[Experiment]:
    return [
        Experiment(start, ["start", "memory-start"]),
        Experiment(agent_cpu("busy", "busy", 0), ["busy"]),
        Experiment(agent_cpu("idle-100", "busy", 100), ["idle-100"]),
        Experiment(agent_cpu("idle-1000", "busy", 1000), ["idle-1000"]),
        Experiment(agent_cpu("crowd-100", "crowd", 100), ["crowd-100"]),
        Experiment(events("alloc", "alloc", 0), ["alloc"]),
        Experiment(native_allocations, ["native"]),
        Experiment(events("build-1M", "build", 1_000_000), ["build-1M"]),
        Experiment(build("build-10M", 10_000_000), ["build-10M", "build-10M-growth"]),
        Experiment(
            build("build-100M", 100_000_000),
            ["build-100M", "build-100M-growth"],
            lambda options: min(options.rounds, 3),  # six GB, a minute and a half each
        ),
        *(
            Experiment(events(row, row), [row])
            for row in ("lock", "rlock", "handoff", "async-lock", "raise", "raise-deep", "gc")
        ),
        Experiment(system_calls, ["calls-busy", "calls-idle"], lambda options: 1),
        Experiment(bytes_written, ["bytes", "bytes-look"], lambda options: 1),
        *(
            Experiment(
                services,
                [f"{services.kind}-{what}" for what in ("cpu", "p99", "memory")],
                lambda o: o.slices,
                services.end,
            )
            for services in (Services("flask"), Services("starlette"))
        ),
        Experiment(attach, ["attach-own", "attach-target"]),
        Experiment(memory, ["memory"], lambda options: 1),
    ]
