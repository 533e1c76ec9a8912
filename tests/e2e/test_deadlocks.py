"""Threads that wait for each other: told once, of each of them, and only where none can go on."""

import json

import pytest
from agent import finish, run, start
from test_locks import START, STOP


def test_a_deadlock_is_told_once(tmp_path):
    process = start(
        tmp_path,
        """
import logging, sys
logging.basicConfig(format="%(message)s")
"""
        + START
        + """
one, two = threading.Lock(), threading.RLock()
def first():
    with one: time.sleep(0.1); two.acquire()
def second():
    with two: time.sleep(0.1); one.acquire()
def third(): one.acquire()  # waits for the ring, and is no part of it
for f in (first, second, third):
    threading.Thread(target=f, name=f.__name__, daemon=True).start()
print("ready", flush=True)
began = time.monotonic()
while not profiler.status()["locks"]["deadlocks"] and time.monotonic() - began < 10:
    time.sleep(0.05)
took = time.monotonic() - began
time.sleep(1)
import json
print(json.dumps([took, profiler.status()["locks"]]))
"""
        + STOP,
    )
    done = finish(process, tmp_path)
    assert done.code == 0
    took, locks = json.loads(done.out)
    assert locks["deadlocks"] == 1
    assert took < 3  # within a second, on a machine that is not busy
    told = sorted(line for key, line in locks.items() if key.startswith("deadlock_"))
    assert len(told) == 2
    assert "thread first " in told[0] and "program.py:12:first < " in told[0]
    assert "thread second " in told[1] and "program.py:14:second < " in told[1]
    assert done.err.count("deadlock: ") == 2


def test_a_deadlock_of_threads_that_are_alike_tells_of_each(tmp_path):
    """They run the same line, and their names differ by a number."""
    done = run(
        tmp_path,
        """
import logging
logging.basicConfig(format="%(message)s")
"""
        + START
        + """
locks, gate = [threading.Lock() for _ in range(3)], threading.Barrier(3)
def eats(place):
    with locks[place]:
        gate.wait()
        with locks[(place + 1) % 3]: pass
for place in range(3): threading.Thread(target=eats, args=(place,), daemon=True).start()
began = time.monotonic()
while not profiler.status()["locks"]["deadlocks"] and time.monotonic() - began < 40:
    time.sleep(0.05)
time.sleep(0.5)
locks_told = profiler.status()["locks"]
print(locks_told["deadlocks"], sum(key.startswith("deadlock_") for key in locks_told))
"""
        + STOP,
    )
    assert (done.code, done.out) == (0, "1 3\n"), done.err
    told = [line for line in done.err.splitlines() if line.startswith("deadlock: ")]
    assert len(told) == len({line.split(" waits ")[0] for line in told}) == 3, done.err


@pytest.mark.parametrize("make", ["threading.Lock", "threading.RLock", "multiprocessing.Lock"])
@pytest.mark.parametrize("wait", ["acquire(timeout=60)", "acquire(True, 60.0)"])
def test_a_ring_with_timeouts_is_no_deadlock(tmp_path, make, wait):
    done = run(
        tmp_path,
        """
import logging, multiprocessing, sys
logging.basicConfig(format="%(message)s")
"""
        + START
        + f"""
one, two, gate = {make}(), {make}(), threading.Barrier(2)
def first():
    with one: gate.wait(); two.{wait}
def second():
    with two: gate.wait(); one.{wait}
for f in (first, second):
    threading.Thread(target=f, name=f.__name__, daemon=True).start()
began = time.monotonic()
while not profiler.status()["locks"]["timed_rings"] and time.monotonic() - began < 40:
    time.sleep(0.05)
locks = profiler.status()["locks"]
print(locks["deadlocks"], locks["timed_rings"])
time.sleep(0.2)
"""
        + STOP,
    )
    assert done.code == 0, done.err
    assert done.out == "0 1\n", done.err
    assert "deadlock" not in done.err
    assert done.err.count("ring of waits that a timeout may end: thread ") == 2
    assert done.err.count("waits, with a timeout, in ") == 2
