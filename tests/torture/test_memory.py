"""The hooks of allocators where it hurts: they change nothing, whatever the program does, and what
they count stays right.

Programs say their last word and exit 0; anything on standard error is a failure.
"""

import json
import subprocess
import sys

import agent
import pytest
from conftest import seconds

LONG = seconds(0)  # 0: the short variant
FINE = {"PYROMETER_HEAP_SAMPLE_SIZE": "1KiB", "PYROMETER_UPLOAD_INTERVAL": "1s"}

# The warning of the pushed budget, and what AddressSanitizer says before it returns NULL.
EXPECTED = ("HEAP_SAMPLE_SIZE", "AddressSanitizer failed to allocate")

# Allocates in every way: small, large, resized, freed elsewhere, in cycles, in finalizers.
WORK = """
import gc, json, logging, os, random, sys, threading, time
from pyrometer import Profiler

class Noisy:
    def __init__(self): self.me = self
    def __del__(self): [str(i) * 20 for i in range(5)]

def generate(n):
    for i in range(n): yield [i] * i

def descend(depth, error):
    if depth == 0: raise error
    descend(depth - 1, error)

# What no allocator can give: a limit on address space makes it less.
too_large = 1 << 62

def has_no_memory(allocate):
    try: allocate()
    except MemoryError as error: return str(error) == "" and error.__context__ is None
    return False

def turn(seed):
    '''Everything that the program can see of it, which depends on the seed alone.'''
    mine = random.Random(seed)
    kept, seen = [], []
    for i in range(200):
        size = mine.choice([1, 20, 500, 513, 5000, 200_000])
        kept.append(mine.choice([bytes, bytearray])(size))
        grown = bytearray()
        for _ in range(mine.randrange(20)): grown += bytes(size % 1000)
        if len(kept) > 50: kept.pop(mine.randrange(len(kept)))
        Noisy()
        # Tracebacks are allocated while the error is on its way.
        raised = ValueError(f"{size} {i}")
        try: descend(i % 20, raised)
        except ValueError as error:
            kept.append(str(error))
            depth, traceback = 0, error.__traceback__
            while traceback: depth, traceback = depth + 1, traceback.tb_next
            seen.append((error is raised, error.__context__, depth))
        raised.__traceback__ = None  # in a cycle with the frames
        exec(f"def made_{i}(): return [{i}] * {i % 50}", scope := {})
        kept.append(scope[f"made_{i}"]())
        seen.append((size, len(grown), len(kept), sys.exc_info()))
    few = [1]
    seen.append(has_no_memory(lambda: bytes(too_large)))
    seen.append(has_no_memory(lambda: few.extend(range(too_large // 8))))
    seen += [few, [(type(one).__name__, len(one)) for one in kept]]
    return repr((seen, sum(len(one) for one in generate(30))))

def expect(count):
    '''What turns are; here, before a start.'''
    expected = [turn(seed) for seed in range(count)]
    assert all("False" not in one for one in expected), expected
    return expected

enough = threading.Event()

def together(count, seconds, expected=None):
    expected = expected or expect(count)
    end = time.monotonic() + seconds
    done = []
    def run(seed):
        turns = 0
        while turns == 0 or (time.monotonic() < end and not enough.is_set()):
            assert turn(seed) == expected[seed]
            turns += 1
        done.append(turns)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads: thread.start()
    return threads, done
"""


def survive(folder, source, *arguments, options=(), timeout=120, **settings):
    done = agent.run(
        folder,
        WORK + source,
        *arguments,
        options=options,
        timeout=timeout + 2 * LONG,
        **(FINE | {"PYROMETER_EXIT_TIMEOUT": "30s"} | settings),
    )
    lines = [line for line in done.err.splitlines() if not any(map(line.count, EXPECTED))]
    assert (done.code, lines) == (0, []), done.err[-3000:]
    return done


HELLS = {
    "plain": ((), {}),
    "debug": ((), {"PYTHONMALLOC": "debug"}),
    "malloc": ((), {"PYTHONMALLOC": "malloc"}),
    "malloc_debug": ((), {"PYTHONMALLOC": "malloc_debug"}),
    "dev": (("-X", "dev"), {}),
    "tracemalloc": (("-X", "tracemalloc=3"), {}),
    "native": ((), {"PYROMETER_NATIVE_HEAP_ENABLED": "true"}),
    "native-malloc": ((), {"PYROMETER_NATIVE_HEAP_ENABLED": "true", "PYTHONMALLOC": "malloc"}),
}


@pytest.mark.parametrize("hell", HELLS)
def test_br_033_every_allocator_with_collections_all_the_time(tmp_path, hell):
    """Objects with allocating finalizers, exceptions, generators, code that dies, memory that is
    refused; the collector of garbage runs at each allocation. All is as it was before the start."""
    options, settings = HELLS[hell]
    survive(
        tmp_path,
        f"""
import resource
gc.set_threshold(1)
if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # which needs address space itself
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 30), resource.RLIM_INFINITY))
    too_large = 6 << 30
expected = expect(4)
profiler = Profiler()
profiler.start()
threads, done = together(4, {LONG or 1}, expected)
for thread in threads: thread.join()
assert len(done) == 4, done
gc.set_threshold(700)
kept = [bytearray(100_000) for _ in range(300)]
status = profiler.status()["heap"]
error = status["live_bytes_standard_error"]
assert abs(status["live_bytes"] - 33e6) < 4 * error + 8e6, status
profiler.flush(30)
profiler.stop()
        """,
        options=options,
        **settings,
    )


def test_br_035_start_and_stop_while_threads_allocate(tmp_path):
    """1,000 times; live blocks of one start are nobody's in the next."""
    turns = 1000 if LONG else 40
    survive(
        tmp_path,
        f"""
threads, done = together(8, 3600)
for _ in range({turns}):
    profiler = Profiler()
    profiler.start()
    profiler.stop(flush=False)
enough.set()
for thread in threads: thread.join()
profiler = Profiler()
profiler.start()
status = profiler.status()["heap"]
assert status["live_bytes"] < 10e6, status
profiler.stop()
assert len(done) == 8, done
        """,
        PYROMETER_LOCK_ENABLED="false",
        PYROMETER_EXCEPTION_ENABLED="false",
    )


def test_br_036_more_live_blocks_than_the_table_holds(tmp_path):
    """300,000 blocks at a distance that takes them all; a third is freed while the
    heap is looked at."""
    survive(
        tmp_path,
        """
profiler = Profiler()
profiler.start()
kept = [bytes(1000) for _ in range(300_000)]
going = threading.Thread(target=lambda: [profiler.status() for _ in range(50)])
going.start()
del kept[::3]
going.join()
status = profiler.status()["heap"]
assert status["live_samples"] <= 16384, status
truth = 200_000 * 1033
assert abs(status["live_bytes"] - truth) < max(4 * status["live_bytes_standard_error"], truth / 20)
profiler.stop()
        """,
    )


def test_other_hooks_before_and_after_in_any_order(tmp_path):
    """tracemalloc begins before us and ends after us, which takes our hooks away: noticed, and put
    back; and it begins after us and ends before us."""
    survive(
        tmp_path,
        """
import tracemalloc
def live(): return profiler.status()["heap"]["live_bytes"]
def kept_is_seen():
    profiler.flush(30)
    for _ in range(1000): pass  # the main thread looks after the hooks
    kept = [bytearray(1_000_000) for _ in range(20)]
    assert abs(live() - 23e6) < 12e6, live()
    del kept
    assert live() < 12e6, live()

profiler = Profiler()
for turn in range(10):
    tracemalloc.start()
    profiler.start()
    kept_is_seen()
    tracemalloc.stop()
    kept_is_seen()
    tracemalloc.start()
    kept_is_seen()
    tracemalloc.stop()
    kept_is_seen()
    profiler.stop()
        """,
    )


@pytest.mark.parametrize("count", [0, 8])
def test_br_108_forks_while_threads_allocate(tmp_path, count):
    """Each child allocates, starts a thread, and ends at once; none hangs. What the parent keeps is
    the parent's alone."""
    turns = 1000 if LONG else 20
    survive(
        tmp_path,
        f"""
kept = []
profiler = Profiler()
profiler.start()
kept += [bytearray(1_000_000) for _ in range(30)]
threads, done = together({count}, {LONG or 3})
for _ in range({turns}):
    pid = os.fork()
    if pid == 0:
        mine = [bytearray(1_000_000) for _ in range(5)]
        thread = threading.Thread(target=turn, args=(1,))
        thread.start()
        thread.join()
        status = profiler.status()
        live = status.get("heap", {{}}).get("live_bytes", 0)
        os._exit(0 if live < 25e6 else 3)
    assert os.waitpid(pid, 0)[1] == 0
for thread in threads: thread.join()
# 30 MB, and where the threads made the sampling distance larger, give or take six of them.
assert profiler.status()["heap"]["live_bytes"] > 12e6
profiler.stop()
        """,
        options=("-W", "ignore::DeprecationWarning"),
    )


def test_memory_errors_are_what_they_were(tmp_path):
    """With a limit on address space: the same exceptions, and the indicator of errors untouched."""
    survive(
        tmp_path,
        """
import resource
profiler = Profiler()
profiler.start()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20), resource.RLIM_INFINITY))
caught = 0
for turn_number in range(20):
    kept = []
    try:
        while True: kept.append(bytearray(random.choice([100_000, 3_000_000, 50_000_000])))
    except MemoryError:
        caught += 1
        del kept
    for impossible in (lambda: bytes(1 << 62), lambda: [None] * (1 << 59), lambda: "x" * (1 << 61)):
        try: impossible()
        except MemoryError: caught += 1
    grown = bytearray(1_000_000)
    try:
        while True: grown *= 2
    except MemoryError: caught += 1
    # What is left of an array that could not grow is CPython's to say: nothing on 3.15.
    assert bytes(grown[:10]) in (bytes(10), b"")
assert caught == 20 * 5, caught
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
del grown
profiler.flush(30)
assert profiler.status()["heap"]["live_bytes"] < 20e6, profiler.status()["heap"]
profiler.stop()
        """,
        PYROMETER_UPLOAD_INTERVAL="60s",  # encoding a window may need memory, and says so
    )


def test_sub_interpreters(tmp_path):
    """They allocate beside the main one, with their own GIL where there is one, and end."""
    survive(
        tmp_path,
        f"""
try:
    import _interpreters as interpreters
except ImportError:
    try: import _xxsubinterpreters as interpreters
    except ImportError: import _interpreters as interpreters
script = '''
kept = []
for i in range(3000):
    kept.append(bytearray(i)); kept.append([i] * 10)
    if len(kept) > 500: del kept[:250]
'''
def run():
    end = time.monotonic() + {LONG or 2}
    while time.monotonic() < end:
        one = interpreters.create()
        getattr(interpreters, "run_string")(one, script)
        interpreters.destroy(one)
profiler = Profiler()
profiler.start()
threads = [threading.Thread(target=run) for _ in range(3)]
others, done = together(2, {LONG or 2})
for thread in threads: thread.start()
for thread in threads + others: thread.join()
profiler.flush(30)
profiler.stop()
        """,
        options=("-W", "ignore"),
    )


def test_br_038_no_system_calls_on_the_way(tmp_path):
    """As many as without the profiler, but for the few of its own life."""
    program = tmp_path / "calls.py"
    program.write_text(
        "import sys\n"
        "from pyrometer import Profiler\n"
        "profiler = Profiler()\n"
        "profiler.start()\n"
        "def loop(n):\n"
        "    for _ in range(n): [None], b'x' * 100, bytearray(600)\n"
        "loop(10_000)\n"
        "loop(int(sys.argv[1]))\n"
        "import os; os._exit(0)\n"
    )
    counts = []
    for turns in (100_000, 1_100_000):
        report = tmp_path / "strace"
        command = ["strace", "-f", "-c", "-o", str(report), sys.executable, str(program)]
        settings = agent.environment(tmp_path / "out", PYROMETER_STACK_ENABLED="false")
        subprocess.run([*command, str(turns)], env=settings, check=True, timeout=120)
        rows = report.read_text().splitlines()
        counts.append(int(next(row for row in rows if row.endswith("total")).split()[-2]))
    assert counts[1] - counts[0] < 200, counts


def test_the_end_of_the_interpreter(tmp_path):
    """Daemon threads allocate until the very end, with and without a stop."""
    for stops in ("True", "False"):
        survive(
            tmp_path,
            f"""
profiler = Profiler()
profiler.start()
def forever():
    while True: turn(1)
for _ in range(4): threading.Thread(target=forever, daemon=True).start()
time.sleep(0.3)
if {stops}: profiler.stop()
            """,
        )


def test_the_collector_stays_small(tmp_path):
    """At most 8 MB, whatever is alive and from however many places it came: its tables are of a
    fixed size, and the process grows by no more."""
    done = survive(
        tmp_path,
        """
def resident():
    rows = open("/proc/self/smaps_rollup").read().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("Private_Dirty")) * 1024
def make(places, n): return [places[f"place_{i % 3000}"](1) for i in range(n)]
places = {}
for i in range(3000):
    exec(f"def place_{i}(n): return [bytearray(600) for _ in range(n)]", places)
make(places, 30_000)
profiler = Profiler()
profiler.start()
profiler.flush(30)
before = resident()
kept = make(places, 30_000)
profiler.flush(30)
heap = profiler.status()["heap"]
print(json.dumps([resident() - before - 30_000 * (601 + 72 + 88 + 56), heap]))
profiler.stop()
        """,
        PYROMETER_STACK_ENABLED="false",
        PYROMETER_LOCK_ENABLED="false",
        PYROMETER_EXCEPTION_ENABLED="false",
        PYROMETER_UPLOAD_INTERVAL="60s",
    )
    growth, heap = json.loads(done.out)
    assert heap["live_samples"] > 500
    assert heap["sites"] > 500
    assert heap["tables_bytes"] < 8 << 20
    assert growth < 24 << 20  # names and a window are in it
