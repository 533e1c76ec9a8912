"""Waits for locks, and because of whom; how often locks are taken and how long they are held."""

import os

import pytest
from agent import names, run, sums, with_value

START = """
import threading, time
import pyrometer
profiler = pyrometer.Profiler(upload_interval="1h")
profiler.start()
"""
STOP = """
profiler.stop()
"""


@pytest.mark.parametrize("kind", ["Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"])
def test_every_acquisition_counts(tmp_path, kind):
    done = run(
        tmp_path,
        f"""
import threading
from threading import {kind} as made_before
early = made_before()
{START}
late = threading.{kind}()
def work(lock):
    for _ in range(20000):
        with lock: pass
    for _ in range(5000):
        lock.acquire(); lock.release()
        lock.acquire(True, 1) if {kind!r} != "Semaphore" else lock.acquire(timeout=1)
        lock.release()
work(early); work(late)
"""
        + STOP,
    )
    assert (done.code, done.err) == (0, "")
    total = sum(sums(done, "lock-acquire").values())
    releases = sum(sums(done, "lock-release").values())
    # One of the lock itself, and one of its condition's where it has one.
    assert 60_000 <= total <= 63_000 or kind not in ("Lock", "RLock", "Condition")
    assert total >= 60_000
    assert 0.8 * total < releases <= total  # a sample stands for a thousand on a busy machine


def test_br_062_holds_are_true(tmp_path):
    done = run(
        tmp_path,
        START
        + """
lock, other = threading.Lock(), threading.RLock()
def fast():
    for _ in range(100000):
        with lock: pass
def slow():
    for _ in range(40):
        with other:
            time.sleep(0.005)
            with other: pass  # the inner one does not end the hold
began = time.monotonic()
fast(); slow()
wall = time.monotonic() - began
threading.Thread(target=lock.acquire).start()  # never released
time.sleep(0.05)
print(wall)
"""
        + STOP,
    )
    wall = float(done.out)
    holds = with_value(done, "lock-release-hold")
    assert all(sample.values["lock-release-hold"] > 0 for sample in holds)
    by_function = sums(done, "lock-release-hold")
    assert 0.1e9 < by_function["slow"] < wall * 1e9  # some are missed after the fast ones
    assert sum(by_function.values()) < wall * 1e9 * 1.05
    assert by_function["fast"] < 0.1e9
    assert sums(done, "lock-acquire")["fast"] > 90_000


def test_workers_that_wait_for_work_are_parked(tmp_path):
    done = run(
        tmp_path,
        """
import queue
from concurrent.futures import ThreadPoolExecutor
"""
        + START
        + """
todo = queue.Queue()
def worker():
    while todo.get() is not None: pass
workers = [threading.Thread(target=worker) for _ in range(40)]
for w in workers: w.start()
event, barrier = threading.Event(), threading.Barrier(3)
others = [threading.Thread(target=event.wait), *[threading.Thread(target=barrier.wait)] * 1]
for t in others: t.start()
time.sleep(0.3)
event.set(); threading.Thread(target=barrier.wait).start(); barrier.wait()
for _ in workers: todo.put(None)
for t in [*workers, *others]: t.join()
with ThreadPoolExecutor(4) as pool:
    list(pool.map(time.sleep, [0.01] * 20))
"""
        + STOP,
    )
    assert (done.code, done.err) == (0, "")
    waits = with_value(done, "lock-acquire-wait")
    parks = sum(s.values["lock-acquire-wait"] for s in waits if s.labels["wait kind"] == "park")
    mutexes = [s for s in waits if s.labels["wait kind"] == "mutex"]
    assert parks > 40 * 0.25e9
    assert sum(s.values["lock-acquire-wait"] for s in mutexes) < 0.02 * parks


def test_br_019_who_has_the_gil(tmp_path):
    """Two threads fight for it, three compress without it: who holds it, who waits for it."""
    done = run(
        tmp_path,
        """
import os, threading, time, zlib, pyrometer.auto
data = os.urandom(1 << 23)
end = time.monotonic() + 3
def fight():
    while time.monotonic() < end:
        for _ in range(100): pass
def pack():
    while time.monotonic() < end: zlib.compress(data)
threads = [threading.Thread(target=f) for f in (fight, fight, pack, pack, pack)]
for t in threads: t.start()
for t in threads: t.join()
""",
    )
    assert (done.code, done.err) == (0, "")

    def seconds(kind, function, *states):
        return sum(
            sample.values[kind]
            for sample in done.samples()
            if function in names(sample) and (not states or sample.labels.get("state") in states)
        )

    wall = seconds("wall-time", "pack")
    assert seconds("wall-time", "pack", "on-cpu", "runnable") > 0.6 * wall
    assert seconds("gil-wait", "fight") > seconds("gil-wait", "pack")
    held = {name: seconds("gil-hold-blocking", name) for name in ("fight", "pack")}
    # A thread that waits for a CPU with the GIL in its hands has it, too: on busy machines some do.
    assert held["fight"] > 4 * held["pack"], held


def test_tries_and_timeouts(tmp_path):
    done = run(
        tmp_path,
        START
        + """
lock = threading.Lock()
held, over = threading.Event(), threading.Event()
def holder():
    with lock: held.set(); over.wait()
threading.Thread(target=holder).start()
held.wait()
def tries():
    for _ in range(1000):
        assert lock.acquire(False) is False
        assert lock.acquire(blocking=False) is False
        assert lock.acquire(timeout=0) is False
def times_out():
    assert lock.acquire(timeout=0.05) is False
    assert lock.acquire(True, 0.05) is False
tries(); times_out()
for wrong in (lambda: lock.acquire(timeout=-5), lambda: lock.acquire(False, 1),
              lambda: lock.acquire(1, 2, 3), lambda: lock.acquire(what=1),
              threading.Lock().release, threading.RLock().release):
    try: wrong()
    except (ValueError, TypeError, RuntimeError) as error: pass
    else: raise SystemExit("no error")
over.set()
"""
        + STOP,
    )
    assert (done.code, done.err) == (0, "")
    waits = sums(done, "lock-acquire-wait")
    assert "tries" not in waits
    assert 0.1e9 <= waits["times_out"] < 1e9  # on busy machines, too
    assert sums(done, "lock-acquire").get("times_out", 0) == 0


@pytest.mark.parametrize("own", ["", "threading.RLock()", "threading.Lock()"])
def test_who_was_woken_waits_for_the_lock_of_its_condition(tmp_path, own):
    """Until it is woken is one thing, until it has the condition's lock again another one."""
    done = run(
        tmp_path,
        START
        + f"""
condition, waiting = threading.Condition({own}), threading.Semaphore(0)
def woken():
    with condition:
        waiting.release()
        condition.wait()
threads = [threading.Thread(target=woken) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: waiting.acquire()
with condition:
    condition.notify_all()
    time.sleep(0.6)
for thread in threads: thread.join()
"""
        + STOP,
    )
    assert (done.code, done.err) == (0, "")
    waits = [
        sample
        for sample in with_value(done, "lock-acquire-wait")
        if sample.labels["wait kind"] == "mutex" and "Condition.wait" in names(sample)
    ]
    # Three, for as long as 0.6 s; those that wake late on a busy machine wait less.
    assert sum(sample.values["lock-acquire-wait"] for sample in waits) > 0.5e9
    assert all("woken" in names(sample) for sample in waits)


def test_excluded_modules_and_the_import_system(tmp_path):
    source = (
        "import logging.handlers\n"
        + START
        + """
logging.basicConfig(stream=open("/dev/null", "w"))
def mine():
    for _ in range(500):
        logging.warning("x")
        with lock: pass
lock = threading.Lock()
mine()
"""
        + STOP
    )
    done = run(tmp_path, source)
    assert any(
        s.stack[0][1].endswith("logging/__init__.py") for s in with_value(done, "lock-acquire")
    )
    (tmp_path / "b").mkdir()
    done = run(tmp_path / "b", source, PYROMETER_LOCK_EXCLUDE_MODULES="queue, logging")
    leaves = {s.stack[0][1] for s in with_value(done, "lock-acquire")}
    assert not any(leaf.endswith("logging/__init__.py") for leaf in leaves)
    assert "<frozen importlib._bootstrap>" not in leaves
    assert sums(done, "lock-acquire")["mine"] > 0


def test_excluded_modules_are_left_out_whole(tmp_path):
    """Their waits, holds after a wait, and what a Condition takes for them."""
    (tmp_path / "left.py").write_text(
        """
import threading, time
lock, condition = threading.Lock(), threading.Condition()
def use():
    for _ in range(10):
        with lock: time.sleep(0.005)
        for _ in range(100):
            with condition: pass
"""
    )
    source = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        + START
        + """
import left
threads = [threading.Thread(target=left.use) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
"""
        + STOP
    )

    def total(done):
        names = "lock-acquire", "lock-acquire-wait", "lock-release", "lock-release-hold"
        return [
            sum(s.values[n] for s in with_value(done, n) if any(f == "use" for f, _, _ in s.stack))
            for n in names
        ]

    for folder, modules in ("all", ""), ("left", "left"):
        (tmp_path / folder).mkdir()
        done = run(tmp_path / folder, source, PYROMETER_LOCK_EXCLUDE_MODULES=modules)
        assert (done.code, done.err) == (0, "")
        assert all(total(done)) if folder == "all" else not any(total(done)), total(done)


def test_nothing_tells_that_locks_are_measured(tmp_path):
    source = """
import _thread, copy, pickle, threading, weakref, typing
{start}
Lock, RLock = _thread.LockType, type(threading.RLock())
lock, rlock = threading.Lock(), threading.RLock()
print(type(lock) is Lock, isinstance(rlock, RLock), Lock.__module__, RLock.__name__)
print(sorted(vars(Lock)), sorted(vars(RLock)))
print([type(vars(Lock)[n]).__name__ for n in sorted(vars(Lock))])
for name in ("acquire", "release", "__enter__", "__exit__", "locked"):
    print(repr(getattr(Lock, name)), getattr(Lock, name).__doc__)
    print(getattr(lock, name) == getattr(lock, name), getattr(lock, name).__self__ is lock)
for bad in (copy.copy, copy.deepcopy, pickle.dumps):
    for it in (lock, rlock):
        try: bad(it)
        except TypeError as error: print(error)
print(weakref.ref(lock)() is lock, weakref.ref(rlock)() is rlock)
print(repr(lock).split(" at ")[0], repr(rlock).split(" at ")[0])
with lock: print(lock.locked(), repr(lock).split(" at ")[0])
class Own(RLock):
    def acquire(self): raise AssertionError("mine")
try: Own().acquire()
except AssertionError as error: print(error)
own = Own()
with own: print("entered")
print(typing.Optional[Lock])
print(lock.acquire.__text_signature__ if hasattr(lock.acquire, "__text_signature__") else None)
try:
    with lock: raise KeyError("through")
except KeyError as error: print(error, lock.locked())
"""
    plain = run(tmp_path, source.format(start=""))
    (tmp_path / "b").mkdir()
    started = "import pyrometer.auto"
    measured = run(tmp_path / "b", source.format(start=started))
    assert plain.code == 0, plain.err
    assert (measured.code, measured.out) == (0, plain.out)


ARGUMENTS = """
{start}
import multiprocessing, threading
def attempt(call, *values, **words):
    try: print(call(*values, **words))
    except Exception as error: print(type(error), error)
huge = 1 << 100
def take(lock, *values, **words): # while another thread has it, for a while
    held = threading.Event()
    def hold():
        with lock: held.set(); time.sleep(0.05)
    thread = threading.Thread(target=hold); thread.start(); held.wait()
    def call():
        got = lock.acquire(*values, **words)
        if got: lock.release()
        return got
    attempt(call); thread.join()
for make in (threading.Lock, threading.RLock, multiprocessing.Lock, multiprocessing.RLock,
             multiprocessing.Semaphore):
    lock = make()
    for values in (huge,), (-huge,), (True, huge), (huge, 9), (1, float("nan")), (1, 2, 3), ([], 0):
        attempt(lock.acquire, *values); attempt(lock.release)
        take(lock, *values)
    for word in "timeout", "block", "blocking", "other":
        attempt(lock.acquire, **{{word: huge}}); attempt(lock.release)
        take(lock, **{{word: huge}})
"""


def test_arguments_of_all_kinds(tmp_path):
    plain = run(tmp_path, ARGUMENTS.format(start="import time"))
    (tmp_path / "b").mkdir()
    measured = run(tmp_path / "b", ARGUMENTS.format(start=START))
    assert plain.code == 0, plain.err
    assert (measured.code, measured.err, measured.out) == (0, "", plain.out)


def test_forks_while_locks_are_held(tmp_path):
    done = run(
        tmp_path,
        """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
"""
        + START
        + """
lock, stop = threading.Lock(), False
def churn():
    while not stop:
        with lock: pass
threads = [threading.Thread(target=churn) for _ in range(4)]
for t in threads: t.start()
for i in range(10):
    pid = os.fork()
    if pid == 0:
        own = threading.Lock()
        for _ in range(1000):
            with own: pass
        t = threading.Thread(target=own.acquire); t.start(); t.join()
        raise SystemExit(0)
    assert os.waitpid(pid, 0)[1] == 0
stop = True
for t in threads: t.join()
"""
        + STOP,
        timeout=100,
    )
    assert (done.code, done.err) == (0, "")


def test_starts_and_stops_under_contention(tmp_path):
    done = run(
        tmp_path,
        """
import os, threading, time, pyrometer
lock, rlock, stop = threading.Lock(), threading.RLock(), False
def churn():
    while not stop:
        with lock:
            with rlock: sum(range(50))
threads = [threading.Thread(target=churn) for _ in range(3)]
for t in threads: t.start()
for _ in range(int(os.environ["TIMES"])):
    profiler = pyrometer.Profiler(upload_interval="1h")
    profiler.start()
    time.sleep(0.002)
    profiler.stop(flush=False)
stop = True
for t in threads: t.join()
assert not lock.locked()
""",
        TIMES=os.environ.get("PYROMETER_LOCK_STARTS", "60"),
        timeout=110,
    )
    assert (done.code, done.err) == (0, "")


def test_signals_finalizers_and_the_end(tmp_path):
    done = run(
        tmp_path,
        "import signal\n"
        + START
        + """
lock = threading.RLock()
def handler(*_):
    with lock: pass
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
class Tidy:
    def __del__(self):
        with lock: pass
end = time.monotonic() + 0.5
while time.monotonic() < end:
    with lock: Tidy()
signal.setitimer(signal.ITIMER_REAL, 0)
waiting = threading.Lock(); waiting.acquire()
def daemon():
    while True: waiting.acquire(timeout=0.001)
for _ in range(3): threading.Thread(target=daemon, daemon=True).start()
def interrupted():
    def stop(*_): raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try: waiting.acquire()
    except KeyboardInterrupt: print("interrupted")
interrupted()
keep = Tidy()
""",
    )
    assert (done.code, done.err) == (0, "")
    assert done.out == "interrupted\n"
    assert sums(done, "lock-acquire-wait")["interrupted"] > 0.04e9


def test_switched_off(tmp_path):
    done = run(
        tmp_path,
        START + "with threading.Lock(): pass\nassert 'locks' not in profiler.status()" + STOP,
        PYROMETER_LOCK_ENABLED="false",
    )
    assert (done.code, done.err) == (0, "")
    (profile,) = done.profiles()
    assert not [name for name, _ in profile.types if name.startswith("lock-")]
