"""Because of whom threads wait: for locks and for the GIL."""

import json

import pytest
from agent import names, python_names, run, sums, with_value

START = """
import threading, time
import pyrometer
profiler = pyrometer.Profiler(upload_interval="1h")
profiler.start()
"""
STOP = """
profiler.stop()
"""


HOLDERS = """
lock = {lock}
ready = threading.Event()
waited = []
def holder():
    with lock:
        ready.set()
        time.sleep({hold})
def waiter():
    ready.wait()
    began = time.monotonic()
    lock.acquire(); waited.append(time.monotonic() - began); lock.release()
for _ in range({rounds}):
    ready.clear()
    threads = [threading.Thread(target=f, name=f.__name__) for f in (holder, *[waiter] * {many})]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(sum(waited))
"""


@pytest.mark.parametrize("lock", ["threading.Lock()", "threading.RLock()", "threading.Condition()"])
def test_waits_name_their_holder(tmp_path, lock):
    done = run(tmp_path, START + HOLDERS.format(lock=lock, hold=0.05, rounds=6, many=3) + STOP)
    assert (done.code, done.err) == (0, "")
    truth = float(done.out)
    waits = [s for s in with_value(done, "lock-acquire-wait") if s.labels["wait kind"] == "mutex"]
    mine = [s for s in waits if names(s)[0] == "waiter"]
    assert abs(sum(s.values["lock-acquire-wait"] for s in mine) / 1e9 - truth) < 0.05 * truth
    pairs = {}
    for sample in waits:
        if "pair id" in sample.labels:
            pairs.setdefault(sample.labels["pair id"], [0, 0])[0] += sample.values[
                "lock-acquire-wait"
            ]
    named = 0
    for sample in with_value(done, "lock-hold-blocking"):
        pairs[sample.labels["pair id"]][1] += sample.values["lock-hold-blocking"]
        if python_names(sample)[0] in ("holder", "waiter"):
            named += sample.values["lock-hold-blocking"]
    assert all(waiter == holder for waiter, holder in pairs.values())
    assert named > 0.9 * truth * 1e9
    assert sums(done, "lock-hold-blocking")["holder"] > 0.5 * truth * 1e9
    assert all(s.labels["lock type"] in ("Lock", "RLock") for s in mine)
    # Some are gone before anybody read their name.
    named = {s.labels["thread name"] for s in mine if not s.labels["thread name"].isdigit()}
    assert named <= {"waiter"}


@pytest.mark.parametrize("lock", ["threading.Lock()", "threading.RLock()"])
def test_holders_are_seen_at_what_they_do(tmp_path, lock):
    """In a queue of threads, each has just taken the lock when the next one learns who has it: what
    the lock is held for is seen by ticks."""
    done = run(
        tmp_path,
        START
        + f"""
lock = {lock}
def slow_query(): time.sleep(0.03)
def handler():
    for _ in range(6):
        with lock:
            slow_query()
threads = [threading.Thread(target=handler) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
        + STOP,
    )
    assert (done.code, done.err) == (0, "")
    blocking = sums(done, "lock-hold-blocking")
    assert blocking["slow_query"] > 0.8 * sum(blocking.values()) > 2e9, blocking
    waits = {}
    for sample in with_value(done, "lock-acquire-wait"):
        pair = sample.labels.get("pair id")
        waits[pair] = waits.get(pair, 0) + sample.values["lock-acquire-wait"]
    for sample in with_value(done, "lock-hold-blocking"):
        waits[sample.labels["pair id"]] -= sample.values["lock-hold-blocking"]
    assert not any(left for pair, left in waits.items() if pair), waits


LINE = """
import json
lock = {lock}
began, had = [], []  # (who, when), (who, from, to)
def take(who, hold):
    began.append((who, time.monotonic_ns()))
    with lock:
        start = time.monotonic_ns()
        time.sleep(hold)
        had.append((who, start, time.monotonic_ns()))
def first(): take("first", 0.06)
def second(): take("second", 0.09)
def third(): take("third", 0.03)
def fourth(): take("fourth", 0.02)
for _ in range(6):
    threads = [threading.Thread(target=f) for f in (first, second, third, fourth)]
    for thread in threads:
        thread.start()
        time.sleep(0.01)
    for thread in threads: thread.join()
print(json.dumps([began, had]))
"""


@pytest.mark.parametrize("lock", ["threading.Lock()", "threading.RLock()"])
def test_a_wait_is_divided_among_those_that_had_the_lock(tmp_path, lock):
    """Who stands in line waits for all before it: for each as long as that one had the lock."""
    done = run(tmp_path, START + LINE.format(lock=lock) + STOP)
    assert (done.code, done.err) == (0, "")
    began, had = json.loads(done.out)
    truth = {}
    for waiter, since in began:
        until = min(start for who, start, end in had if who == waiter and start >= since)
        for holder, start, end in had:
            both = min(until, end) - max(since, start)
            if both > 0:
                truth[waiter, holder] = truth.get((waiter, holder), 0) + both
    caller = {}
    for sample in with_value(done, "lock-acquire-wait"):
        if "pair id" in sample.labels:
            caller[sample.labels["pair id"]] = names(sample)[1]
    seen = {}
    for sample in with_value(done, "lock-hold-blocking"):
        holder = next(name for name in python_names(sample) if name != "take")
        pair = caller[sample.labels["pair id"]], holder
        seen[pair] = seen.get(pair, 0) + sample.values["lock-hold-blocking"]
    total = sum(truth.values())
    assert total > 1e9 and len(truth) >= 5, truth
    # On a busy machine time passes between a release and whoever gets the lock next.
    assert abs(sum(seen.values()) - total) < 0.1 * total, (truth, seen)
    for pair in truth.keys() | seen.keys():
        assert abs(seen.get(pair, 0) - truth.get(pair, 0)) < 0.1 * total, (pair, truth, seen)
    assert truth["fourth", "second"] > 0.2 * total


def test_waits_for_the_gil_name_their_holder(tmp_path):
    done = run(
        tmp_path,
        """
import threading, time, pyrometer.auto
def burn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(100): pass
def one(): burn(1.5)
def two(): burn(1.5)
threads = [threading.Thread(target=f) for f in (one, two, one, two)]
for t in threads: t.start()
for t in threads: t.join()
""",
    )
    assert (done.code, done.err) == (0, "")
    samples = done.samples()
    waited = sum(s.values["gil-wait"] for s in samples)
    state = sum(s.values["wall-time"] for s in samples if s.labels.get("state") == "gil-wait")
    # Times of the timeline are rounded; these are not.
    assert abs(waited - state) < 0.01 * state
    assert waited > 1.5e9  # three of four wait, as far as they have a CPU to wait on
    blocked = [s for s in samples if s.values["gil-hold-blocking"]]
    named = sum(s.values["gil-hold-blocking"] for s in blocked if {"one", "two"} & set(names(s)))
    assert named > 0.8 * waited
    waiters = {}
    for sample in samples:
        if sample.values["gil-wait"] and "pair id" in sample.labels:
            pair = sample.labels["pair id"]
            waiters[pair] = waiters.get(pair, 0) + sample.values["gil-wait"]
    for sample in blocked:
        waiters[sample.labels["pair id"]] -= sample.values["gil-hold-blocking"]
    assert not any(waiters.values())


def test_br_076_samples_lie_inside_their_window(tmp_path):
    done = run(
        tmp_path,
        START + HOLDERS.format(lock="threading.Lock()", hold=0.02, rounds=3, many=2) + STOP,
    )
    (profile,) = done.profiles()
    for sample in profile.samples:
        end = sample.labels.get("end_timestamp_ns")
        if end is not None:
            assert profile.time_ns <= end <= profile.time_ns + profile.duration_ns + 2000
    assert any(
        s.values["lock-acquire-wait"] and "end_timestamp_ns" in s.labels for s in profile.samples
    )
