"""One workload in one process, measured from inside: workload.py NAME [N], prints one JSON line.

    start           nothing: what the profiler's start costs
    busy N          one thread computes at depth 32, N others wait at depth 32
    crowd N         N threads compute, taking turns at the GIL
    alloc           one thread allocates and frees small objects: "ns" each
    native          one thread allocates and frees in a C library: "ns" a pair
    build N         one thread builds N small objects, and frees them: "ns" each, and "growth", that
                    many times the time of each of a million
    lock, rlock, async-lock         takes a lock by `with` and gives it back: "ns" each
    handoff         two threads on one core hand two locks to and fro: "ns" each way
    raise, raise-deep               raises and catches, in one frame or through 20: "ns" each
    gc                              collections of a young generation: "ns" each

The measured time begins when everything has started and BENCH_SETTLE seconds have passed, and lasts
BENCH_SECONDS; with 0 the workload goes on until standard input ends, for measurements from outside.
"agent_pct" is the CPU of threads that the workload did not start, in percent of one core: a
profiler's own threads, whatever they are called.
"""

import ctypes
import gc
import json
import os
import random
import sys
import threading
import time
import types
from collections.abc import Callable

import profilers

DEPTH = 32
settle = float(os.environ.get("BENCH_SETTLE", "2"))
seconds = float(os.environ.get("BENCH_SECONDS", "5"))
mine: set[int] = set()


def resident_kb() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def cpu_of_threads() -> dict[int, float]:
    """CPU seconds of each kernel thread of this process."""
    clocks = {}
    for name in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{name}/schedstat") as stat:
                clocks[int(name)] = int(stat.read().split()[0]) / 1e9
        except OSError:
            pass  # it ended meanwhile
    return clocks


def descend(depth, function):
    return function() if depth <= 0 else descend(depth - 1, function)


def compute(until: float) -> int:
    """Operations done until then: a loop with calls of Python and of C in it."""
    done = 0
    table = {}
    while time.perf_counter() < until:
        for i in range(200):
            table[i & 63] = str(i)
        done += 200
    return done


def start_waiting(count: int, gate: threading.Event) -> None:
    started = threading.Barrier(count + 1)

    def wait():
        mine.add(threading.get_native_id())
        started.wait()
        gate.wait()

    for _ in range(count):
        threading.Thread(target=descend, args=(DEPTH - 4, wait), daemon=True).start()
    started.wait()


def start_computing(count: int, until: float) -> None:
    started = threading.Barrier(count + 1)

    def work():
        mine.add(threading.get_native_id())
        started.wait()
        compute(until)

    for _ in range(count):
        threading.Thread(target=descend, args=(DEPTH - 3, work), daemon=True).start()
    started.wait()


def measure(result: dict) -> None:
    """Computes at depth 32 for the measured time and notes what others used meanwhile."""
    descend(DEPTH - 3, lambda: compute(time.perf_counter() + settle))
    before, cpu, began = cpu_of_threads(), time.process_time(), time.perf_counter()
    done = descend(DEPTH - 3, lambda: compute(time.perf_counter() + seconds))
    elapsed = time.perf_counter() - began
    result["process_pct"] = 100 * (time.process_time() - cpu) / elapsed
    after = cpu_of_threads()
    agent = sum(used - before.get(task, 0) for task, used in after.items() if task not in mine)
    result["agent_pct"] = 100 * agent / elapsed
    result["operations_per_s"] = done / elapsed


def moved(function: Callable) -> Callable:
    """The function with code of its own, elsewhere in memory."""
    code = function.__code__.replace()
    return types.FunctionType(code, function.__globals__, closure=function.__closure__)


def stir() -> list[object]:
    """Moves what is allocated next: keep it until then."""
    kept = [random.choice((object, list, dict))() for _ in range(random.randrange(1000))]
    random.shuffle(kept)
    del kept[::3]
    return kept


def best_of(result: dict, slice_s: Callable[[int], float], count: int) -> None:
    """Nanoseconds of one of `count` events: of the best slice, which nobody disturbed and whose
    memory lay well. Where it lies makes a difference of up to a tenth (an import is enough to move
    it), so each slice has it elsewhere."""
    until = time.perf_counter() + settle + seconds
    best = slice_s(count)
    while time.perf_counter() < until:
        kept = stir()
        best = min(best, moved(slice_s)(count))
        del kept
    result["ns"] = best / count * 1e9


def allocate(result: dict) -> None:
    def slice_s(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count // 10):
            [object() for _ in range(10)]
        return time.perf_counter() - began

    best_of(result, slice_s, 20_000)


def take(result: dict, new: Callable[[], threading.Lock]) -> None:
    def slice_s(count: int) -> float:
        lock = new()
        began = time.perf_counter()
        for _ in range(count):
            with lock:
                pass
        return time.perf_counter() - began

    best_of(result, slice_s, 10_000)


def take_async(result: dict) -> None:
    import asyncio

    async def slice_of(count: int) -> float:
        lock = asyncio.Lock()
        began = time.perf_counter()
        for _ in range(count):
            async with lock:
                pass
        return time.perf_counter() - began

    with asyncio.Runner() as runner:
        best_of(result, lambda count: runner.run(moved(slice_of)(count)), 5_000)


def hand_over(result: dict) -> None:
    # On several it depends on where the kernel puts them: 3 us or 40, by chance.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    ping, pong = threading.Lock(), threading.Lock()
    ping.acquire()
    pong.acquire()

    def answer() -> None:
        mine.add(threading.get_native_id())
        while True:
            ping.acquire()
            pong.release()

    threading.Thread(target=answer, daemon=True).start()

    def slice_s(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count // 2):
            ping.release()
            pong.acquire()
        return time.perf_counter() - began

    best_of(result, slice_s, 2_000)


def throw(result: dict, depth: int) -> None:
    def fail(depth: int) -> None:
        if depth == 0:
            raise KeyError
        fail(depth - 1)

    def slice_s(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            try:
                if depth:
                    fail(depth)
                raise KeyError
            except KeyError:
                pass
        return time.perf_counter() - began

    best_of(result, slice_s, 2_000)


def collect(result: dict) -> None:
    def slice_s(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            gc.collect(0)
        return time.perf_counter() - began

    gc.collect()
    gc.freeze()
    best_of(result, slice_s, 1_000)


def allocate_in_c(result: dict) -> None:
    library = ctypes.PyDLL(os.environ["BENCH_LIBRARY"])
    library.churn.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_size_t]
    time.sleep(settle)  # the sampler finds it

    def slice_s(count: int) -> float:
        began = time.perf_counter()
        library.churn(0, count, 64)
        return time.perf_counter() - began

    best_of(result, slice_s, 100_000)


EVENTS: dict[str, Callable[[dict], None]] = {
    "native": allocate_in_c,
    "lock": lambda result: take(result, threading.Lock),
    "rlock": lambda result: take(result, threading.RLock),
    "async-lock": take_async,
    "handoff": hand_over,
    "raise": lambda result: throw(result, 0),
    "raise-deep": lambda result: throw(result, 20),
    "gc": collect,
}


def build(result: dict, count: int) -> None:
    """Nanoseconds of an object that stays, and of its end: of the best of some turns, as many as
    there is time for. Of CPU: a turn lasts for seconds, in which others run, too."""

    def build_ns(count: int) -> float:
        began = time.thread_time()
        kept = [None] * count
        for i in range(count):
            kept[i] = b"%d" % i
        del kept
        return (time.thread_time() - began) / count * 1e9

    gc.disable()
    million = min(build_ns(1_000_000) for _ in range(3))
    turns = 3 if count <= 10_000_000 else 1
    result["ns"] = min(build_ns(count) for _ in range(turns)) if count > 1_000_000 else million
    result["growth"] = result["ns"] / million


def hold() -> None:
    """Computes until standard input ends; for each line of it says how far it has come."""
    done = [0]
    ended = threading.Event()

    def answer():
        mine.add(threading.get_native_id())
        for _ in sys.stdin:
            print(json.dumps({"operations": done[0], "at": time.perf_counter()}), flush=True)
        ended.set()

    threading.Thread(target=answer, daemon=True).start()
    print("ready", flush=True)
    while not ended.is_set():
        done[0] += descend(DEPTH - 3, lambda: compute(time.perf_counter() + 0.05))


def main() -> None:
    name, count = sys.argv[1], int(sys.argv[2])
    before_kb = resident_kb()
    result: dict = {"python": sys.version.split()[0], "start_ms": profilers.start()}
    time.sleep(0.3)  # threads that start have started
    result["start_kb"] = resident_kb() - before_kb
    mine.add(threading.get_native_id())
    gate = threading.Event()
    if name == "busy":
        start_waiting(count, gate)
    elif name == "crowd":
        start_computing(count - 1, time.perf_counter() + 3600)
    if name == "alloc":
        allocate(result)
    elif name == "build":
        build(result, count)
    elif name in EVENTS:
        EVENTS[name](result)
    elif name != "start":
        measure(result) if seconds > 0 else hold()
    print(json.dumps(result), flush=True)
    os._exit(0)  # how long a profiler takes to end is not what is measured here


main()
