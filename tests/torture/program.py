"""A program that does to an interpreter what hurts whoever looks at it from another thread.

    python program.py SECONDS [HELL ...]

Each hell runs in threads of its own, over and over, until the time is over; without names all of
them run at once. The profiler is what `PYROMETER_*` says; with PYROMETER_ENABLED=false the same
program shows what CPython alone does. The last line of output is a report as JSON, and the exit
code is 17 when every hell was well.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import gc
import json
import os
import random
import signal
import sys
import threading
import time
import types
import warnings
import zlib
from collections.abc import Callable

GOOD, BAD = 17, 18
CHILD_SECONDS = 10  # a child of a fork that lives longer hangs

stopping = False
rounds: dict[str, int] = {}
failures: list[str] = []
hells: dict[str, tuple[int, Callable[[], None]]] = {}
library: ctypes.CDLL | None = None
# CPython 3.11 hangs in the child of a fork made while another interpreter exists, without us too.
one_interpreter = threading.Lock()


def hell(threads: int = 1):
    """A function that is one round of a hell, run by so many threads."""

    def register(function: Callable[[], None]) -> Callable[[], None]:
        hells[function.__name__] = threads, function
        return function

    return register


def run_rounds(function: Callable[[], None]) -> None:
    name = function.__name__
    try:
        while not stopping:
            function()
            rounds[name] += 1
    except BaseException as error:
        failures.append(f"{name}: {error!r}")
        raise


# ----------------------------------------------------------------------------------- threads


@hell()
def thread_churn() -> None:
    """Threads that live from nothing to two milliseconds."""

    def live(seconds: float) -> None:
        if seconds:
            time.sleep(seconds)

    threads = [
        threading.Thread(target=live, args=(random.choice((0, 0, 0.0005, 0.002)),))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@hell()
def foreign_threads() -> None:
    """Threads made in C that enter Python, each with a thread state of its own."""

    def inside() -> None:
        sum(range(200))

    callback = ctypes.CFUNCTYPE(None)(inside)
    error = library.call_in_thread(ctypes.cast(callback, ctypes.c_void_p))
    if error != 0:
        failures.append(f"a foreign thread: {os.strerror(error)}")


# ------------------------------------------------------------------------------------ stacks


def fall(depth: int) -> int:
    return 0 if depth == 0 else 1 + fall(depth - 1)


@hell(2)
def recursion() -> None:
    """Deep and shallow in turn: chunks of the data stack come and go."""
    for depth in (3, 900, 1, 4000, 12):
        fall(depth)


def left_leaf() -> None:
    for _ in range(10):
        pass


def right_leaf() -> None:
    for _ in range(10):
        pass


def left_turn() -> None:
    left_leaf()


def right_turn() -> None:
    right_leaf()


@hell(2)
def alternation() -> None:
    """Two chains of calls in turn: a stack of both would be one that never was."""
    for _ in range(2000):
        left_turn()
        right_turn()


@hell()
def generators() -> None:
    """Generators that hand over, delegate, are closed and thrown into."""

    def count(limit: int):
        try:
            yield 0
            for number in range(1, limit):
                yield number
                len("x")
        except ValueError:
            yield -1

    def delegate(limit: int, depth: int):
        if depth:
            yield from delegate(limit, depth - 1)
        else:
            yield from count(limit)

    assert sum(delegate(50, 20)) == 1225
    opened = delegate(10, 10)
    next(opened)
    assert opened.throw(ValueError()) == -1
    opened.close()
    waiting = [delegate(3, 3) for _ in range(50)]
    for generator in waiting:
        next(generator)
    del waiting, generator


@hell()
def coroutines() -> None:
    """Tasks that start, wait, are cancelled, and end with their loop."""

    async def leaf(number: int) -> int:
        await asyncio.sleep(0 if number % 3 else 0.001)
        return number

    async def chain(number: int, depth: int) -> int:
        return await (chain(number, depth - 1) if depth else leaf(number))

    async def stream(limit: int):
        for number in range(limit):
            await asyncio.sleep(0)
            yield number

    async def main() -> None:
        assert sum(await asyncio.gather(*(chain(n, 8) for n in range(20)))) == 190
        doomed = [asyncio.create_task(chain(0, 5)) for _ in range(5)]
        await asyncio.sleep(0)
        for task in doomed:
            task.cancel()
        await asyncio.gather(*doomed, return_exceptions=True)
        assert [n async for n in stream(5)] == [0, 1, 2, 3, 4]

    asyncio.run(main())


@hell()
def exceptions() -> None:
    """Raised at depth, chained, with tracebacks that keep frames alive."""

    def sink(depth: int) -> None:
        if depth == 0:
            raise KeyError("deep")
        try:
            sink(depth - 1)
        except KeyError as error:
            raise RuntimeError(depth) from error
        finally:
            len("x")

    with contextlib.suppress(RuntimeError, KeyError):
        sink(30)


# -------------------------------------------------------------------------------------- code


@hell(2)
def executed_code() -> None:
    """Code objects that live for one call, so that their addresses are used again and again."""
    number = random.randrange(500)  # names stay in CPython for ever
    scope: dict[str, object] = {}
    source = f"def made_{number}(n):\n  return [made_{number}(n - 1)] if n else []\n"
    exec(compile(source, f"<made {number} \u00e9>", "exec"), scope)
    made = scope[f"made_{number}"]
    made(5)
    made.__code__ = made.__code__.replace(co_name="\u6a21" * 40, co_linetable=b"", co_filename="")
    made(5)
    eval("[x for x in range(50)]")
    scope.clear()


@hell()
def instrumentation() -> None:
    """Bytecode that is rewritten in place while it runs, as debuggers and coverage do."""

    def watch(*_: object):
        return watch

    def watched(n: int) -> int:
        return sum(i for i in range(n))

    sys.settrace(watch)
    watched(20)
    sys.settrace(None)
    sys.setprofile(watch)
    watched(20)
    sys.setprofile(None)
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        monitoring.use_tool_id(4, "torture")
        monitoring.register_callback(4, monitoring.events.LINE, lambda *_: None)
        monitoring.set_local_events(4, watched.__code__, monitoring.events.LINE)
        watched(20)
        monitoring.set_local_events(4, watched.__code__, 0)
        monitoring.free_tool_id(4)
    for _ in range(200):
        watched(3)


@hell()
def interpreters() -> None:
    """Interpreters that are made, run something, and go."""
    source = "def f(n): return f(n - 1) if n else sum(range(500))\nfor _ in range(20): f(30)\n"
    with one_interpreter:
        made = INTERPRETERS.create()
        if hasattr(INTERPRETERS, "exec"):
            INTERPRETERS.exec(made, source)
        else:
            INTERPRETERS.run_string(made, source)
        INTERPRETERS.destroy(made)
    time.sleep(0.001)


# ----------------------------------------------------------------------------------- objects


MOST_MORTALS = 2000


class Mortal:
    """In a cycle with itself; its end allocates."""

    made = 0  # by one thread
    ended = 0  # by whichever collects, one at a time

    def __init__(self) -> None:
        self.me = self
        Mortal.made += 1

    def __del__(self) -> None:
        [str(i) for i in range(5)]
        Mortal.ended += 1


@hell()
def garbage() -> None:
    """A collection at nearly each allocation (the threshold is 1 for the whole program).

    The thread that collects waits for the GIL among all others while it ends mortals. Were as many
    made meanwhile as its turns allow, each collection would have more to do than the last one, and
    the thread that it befell would never come back: so CPython does it, also unprofiled."""
    gc.set_threshold(1)
    for _ in range(50):
        Mortal()
    while Mortal.made - Mortal.ended > MOST_MORTALS and not stopping:
        gc.collect()  # nothing, where another thread is at it
        time.sleep(0.001)
    types.SimpleNamespace(**{f"k{i}": [i] for i in range(20)})


@hell()
def without_gil() -> None:
    """C code that lets the GIL go and comes back."""
    zlib.compress(bytes(300_000), 1)
    time.sleep(0)


# ----------------------------------------------------------------------------------- signals


@hell()
def faults() -> None:
    """Real segmentation faults that a handler in C turns into nothing."""
    handled = library.fault(200)
    if handled != 200:
        failures.append(f"{handled} of 200 faults were handled")
    time.sleep(0.001)


@hell()
def traceback_dumps() -> None:
    """faulthandler walks the stacks as well."""
    faulthandler.dump_traceback(NOWHERE, all_threads=False)
    time.sleep(0.002)


timer_ticks = 0


def tick(*_: object) -> None:
    global timer_ticks
    timer_ticks += 1


@hell()
def timers() -> None:
    """The program's own interval timers; their handlers run in the main thread."""
    before = timer_ticks
    end = time.monotonic() + CHILD_SECONDS
    while timer_ticks < before + 5:
        if time.monotonic() > end:
            failures.append("the program's timer stands still")
            return
        time.sleep(0.005)


@hell()
def waits() -> None:
    """System calls that nobody may interrupt."""
    error = library.wait_undisturbed(50)
    if error != 0:
        failures.append(f"a wait was interrupted: {os.strerror(error)}")


# ------------------------------------------------------------------------------------- forks


def reap(pid: int, expected: int) -> None:
    end = time.monotonic() + CHILD_SECONDS
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            failures.append(f"a child hangs: {where(pid)}")
            os.kill(pid, signal.SIGABRT)
            os.waitpid(pid, 0)
            return
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(status)
    if code != expected:
        failures.append(f"a child ended with {code} instead of {expected}")


def where(pid: int) -> str:
    """What each thread of a process waits for in the kernel."""
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/wchan") as file:
            found.append(file.read())
    return ", ".join(found)


@hell()
def forks() -> None:
    """Children that end at once, that work a while, and that are told to end."""
    kind = random.randrange(3)
    with one_interpreter:
        pid = os.fork()
    if pid == 0:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if kind:
            end = time.monotonic() + random.random() * 0.05
            while time.monotonic() < end:
                fall(50)
        if kind == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(CHILD_SECONDS)
        os._exit(5)
    reap(pid, -signal.SIGTERM if kind == 2 else 5)


# ---------------------------------------------------------------------------------- profiler


@hell()
def starts_and_stops() -> None:
    """The profiler itself comes and goes."""
    PROFILER.stop(flush=random.random() < 0.3)
    PROFILER.start()
    PROFILER.status()
    time.sleep(random.random() * 0.1)


# -------------------------------------------------------------------------------------- main

NOWHERE = open(os.devnull, "w")  # noqa: SIM115
PROFILER = None
try:
    import _interpreters as INTERPRETERS
except ImportError:
    import _xxsubinterpreters as INTERPRETERS


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def watch(seconds: float) -> list[dict[str, float]]:
    """Memory over time: [{"s": 0.5, "resident": ..., "own": ...}, ...]."""
    begin, rows = time.monotonic(), []
    while (passed := time.monotonic() - begin) < seconds and not failures:
        status = PROFILER.status() if PROFILER else {}
        own = status.get("memory", {}).get("profiler_bytes", 0)
        rows.append({"s": passed, "resident": resident_bytes(), "own": own})
        time.sleep(0.25)
    return rows


def main() -> int:
    global library, PROFILER, stopping
    seconds = float(sys.argv[1])
    names = sys.argv[2:] or list(hells)
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks in programs with threads
    sys.setrecursionlimit(10_000)
    sys.setswitchinterval(0.0005)  # else the hells that spin leave the others hardly a turn
    faulthandler.enable()
    library = ctypes.CDLL(os.environ["TORTURE_LIBRARY"])
    library.call_in_thread.argtypes = [ctypes.c_void_p]
    library.fault.restype = ctypes.c_long
    library.fault.argtypes = [ctypes.c_long]
    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)

    from pyrometer import Profiler

    PROFILER = Profiler()
    PROFILER.start()

    threads = []
    for name in names:
        count, function = hells[name]
        rounds[name] = 0
        threads += [threading.Thread(target=run_rounds, args=(function,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    memory = watch(seconds)
    stopping = True
    for thread in threads:
        thread.join(60)
        if thread.is_alive():
            failures.append(f"a thread does not end: {thread}")
            faulthandler.dump_traceback()
            os._exit(BAD)
    signal.setitimer(signal.ITIMER_REAL, 0)
    gc.set_threshold(700)
    failures.extend(f"{name} never ran" for name in names if rounds[name] == 0)
    print(json.dumps({"failures": failures, "rounds": rounds, "memory": memory}))
    return BAD if failures else GOOD


if __name__ == "__main__":
    sys.exit(main())
