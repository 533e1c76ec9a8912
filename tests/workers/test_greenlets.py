"""Programs of gevent's greenlets, which switch stacks under whoever looks at them."""

import json
import subprocess
import sys

import pytest
from harness import pprof


def run(place, source, **settings):
    program = place.folder / "program.py"
    program.write_text(source)
    done = subprocess.run(
        [sys.executable, program],
        cwd=place.folder,
        env=place.environment(**settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    files = sorted((place.folder / "out").glob("app.*.pprof"))
    return done.stdout, [pprof.parse(file.read_bytes()) for file in files]


SERVER = """
from gevent import monkey; monkey.patch_all()
import gevent, gevent.pool, gevent.server
from pyrometer import Profiler

def answer(stream, peer):
    kept = []
    while data := stream.recv(100):
        kept.append(bytearray(2000))
        descend(10, lambda: stream.sendall(data))
def descend(depth, then):
    return then() if depth == 0 else descend(depth - 1, then)
def ask(_):
    with gevent.socket.create_connection(server.address) as stream:
        for _ in range(4):
            stream.sendall(b"question")
            assert stream.recv(100) == b"question"
def serve():
    for _ in pool.imap_unordered(ask, range(250)): pass  # 1,000 requests

server, pool = gevent.server.StreamServer(("127.0.0.1", 0), answer), gevent.pool.Pool(50)
server.start()
profiler = Profiler()
for _ in range(3):
    profiler.start()
    serve()
    profiler.stop()
    serve()
"""


@pytest.mark.parametrize("native", ["false", "true"])
def test_br_054_switches_after_a_stop_and_a_start(place, native):
    _, profiles = run(
        place,
        SERVER,
        PYROMETER_HEAP_SAMPLE_SIZE="16KiB",
        PYROMETER_NATIVE_HEAP_ENABLED=native,
    )
    assert len(profiles) == 3
    for profile in profiles:
        made = [s for s in profile.samples if s.values.get("alloc-space", 0) > 0]
        stacks = [[name for name, _, _ in sample.stack] for sample in made]
        assert all(stacks)  # a greenlet that begins allocates before it has a frame
        stacks = [stack for stack in stacks if stack[:1] == ["answer"]]
        assert stacks
        # A greenlet's stack is its own: no caller of the one that it was switched from.
        assert not any({"ask", "serve", "<module>"} & set(stack) for stack in stacks)


IDLE = """
from gevent import monkey; monkey.patch_all()
import gc, gevent, time
from pyrometer import Profiler

def resident():
    rows = open("/proc/self/smaps_rollup").read().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("Private_Dirty")) * 1024
profiler = Profiler()
profiler.start()
idle = [gevent.spawn(gevent.sleep, 3600) for _ in range(50)]
seen = []
for _ in range(2):
    gevent.sleep(3)
    profiler.flush(30)
    gc.collect()
    seen.append(resident())
print(seen[1] - seen[0])
gevent.killall(idle)
profiler.stop()
"""


def test_br_043_idle_greenlets(place):
    """Looked at ten times as often as usual: the process stays as it is."""
    out, _ = run(
        place,
        IDLE,
        PYROMETER_SAMPLING_INTERVAL="1ms",
        PYROMETER_OVERHEAD_PCT="100",
        PYROMETER_UPLOAD_INTERVAL="1s",
    )
    assert int(out) < 4 << 20


LOCKS = """
{before}
import pyrometer
profiler = pyrometer.Profiler(upload_interval="1h")
profiler.start()
{after}
import gevent, json, logging, queue, threading
from gevent import monkey
given = []
logging.basicConfig(level=logging.INFO, stream=open("log", "w"))

lock, again, turn = threading.Lock(), threading.RLock(), threading.Condition()
def hold():
    for _ in range(20):
        with lock: gevent.sleep(0.002)
        with again:
            with again: gevent.sleep(0)
        logging.info("held")
        given.append(1)
gevent.joinall([gevent.spawn(hold) for _ in range(10)])

jobs, done = queue.Queue(), queue.Queue(3)
def worker():
    while (job := jobs.get()) is not None: done.put(job)
workers = [gevent.spawn(worker) for _ in range(5)]
for number in range(200):
    jobs.put(number)
    given.append(done.get())
for _ in workers: jobs.put(None)
gevent.joinall(workers)

# Each has what the other one wants, for a while: of greenlets that is no thread's wait.
one, two = threading.Lock(), threading.Lock()
def cross(mine, other):
    with mine:
        gevent.sleep(0.01)
        given.append(other.acquire(timeout=0.5))
gevent.joinall([gevent.spawn(cross, one, two), gevent.spawn(cross, two, one)])

thread = threading.Thread(target=hold)
thread.start(); thread.join()
assert gevent.get_hub().threadpool.apply(hold) is None

# What no patch replaces is measured, whichever came first.
real = monkey.get_original("_thread", "allocate_lock")()
def take():
    for _ in range(1000):
        with real: pass
take()
found = profiler.status()["locks"]
profiler.stop()
print(json.dumps([len(given), found["deadlocks"], found["timed_rings"], found["hook"]]))
"""
PATCH = "from gevent import monkey; monkey.patch_all()"


@pytest.mark.parametrize("order", ["patch, start", "start, patch"])
def test_br_073_locks_of_greenlets(place, order):
    """They work, and no ring of theirs is told; CPython's own are measured in either order."""
    first = order.startswith("patch")
    out, profiles = run(
        place, LOCKS.format(before=PATCH if first else "", after="" if first else PATCH)
    )
    given, deadlocks, rings, hook = json.loads(out)
    assert (given, deadlocks, rings) == (200 + 200 + 2 + 20 + 20, 0, 0)
    assert hook == "12 of 12 methods"
    (profile,) = profiles
    taken = sum(
        sample.values["lock-acquire"] for sample in profile.samples if sample.stack[0][0] == "take"
    )
    assert 800 <= taken <= 1100


WAITS = """
{patch}
import json, logging, queue, threading, time
import pyrometer
profiler = pyrometer.Profiler(upload_interval="1h")
profiler.start()
lock, again, waited = threading.Lock(), threading.RLock(), {{"lock": 0, "again": 0}}
def by_lock():
    with lock: pass
def by_hand():
    began = time.monotonic()
    assert lock.acquire()
    waited["lock"] += time.monotonic() - began
    time.sleep(0.002)
    lock.release()
def by_rlock():
    began = time.monotonic()
    with again:
        waited["again"] += time.monotonic() - began
        with again: time.sleep(0.002)
def wait_for(event): event.wait()
def get(jobs): jobs.get()
def hold():
    with lock: time.sleep(0.05)
def run(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
for _ in range(5):
    run(hold, *[by_hand] * 5)
    run(*[by_rlock] * 5)
for _ in range(10_000): by_lock()
condition = threading.Condition()
def sleeps():
    with condition: condition.wait(0.05)
run(*[sleeps] * 3)
assert lock.acquire(False) and not lock.acquire(False) and not lock.acquire(timeout=0.01)
print(json.dumps([waited, profiler.status()["locks"]["hook_greenlets"]]))
profiler.stop()
"""
PATCHES = {
    "gevent": PATCH,
    "eventlet": "import warnings; warnings.simplefilter('ignore')\n"
    "import eventlet; eventlet.monkey_patch()",
}
AT_ALL_CALLS = sys.version_info >= (3, 12)  # calls from bytecode ask functions how to call them


@pytest.mark.parametrize("library", PATCHES)
def test_waits_of_greenlets(place, library):
    """Contended ones exactly, with who gave the lock back; waits to be woken are parked."""
    out, (profile,) = run(place, WAITS.format(patch=PATCHES[library]))
    waited, hook = json.loads(out)
    assert hook.endswith(" methods")
    mine = [s for s in profile.samples if s.labels.get("lock type", "").startswith(library)]

    def total(name, function, kind=None):
        return sum(
            sample.values[name]
            for sample in mine
            if function in [frame[0] for frame in sample.stack]
            and kind in (None, sample.labels.get("wait kind"))
        )

    if library == "gevent" or AT_ALL_CALLS:
        truth = waited["lock"] * 1e9
        assert 0.95 * truth < total("lock-acquire-wait", "by_hand", "mutex") < 1.02 * truth
        blamed = total("lock-hold-blocking", "hold") + total("lock-hold-blocking", "by_hand")
        assert 0.9 * truth < blamed < 1.02 * truth
        assert total("lock-hold-blocking", "hold") > 0.5 * truth
        truth = waited["again"] * 1e9
        assert 0.95 * truth < total("lock-acquire-wait", "by_rlock", "mutex") < 1.02 * truth
        assert total("lock-acquire-wait", "sleeps", "park") > 3 * 0.04e9
        assert total("lock-acquire-wait", "sleeps", "mutex") < 0.01e9
        assert total("lock-release-hold", "hold") < 1e9
    assert 9_000 < total("lock-acquire", "by_lock") < 11_000
    assert 9_000 < total("lock-release", "by_lock") < 11_000
    names = {s.labels.get("lock name", "").rpartition(":")[2] for s in mine}
    assert "lock" in names, names
