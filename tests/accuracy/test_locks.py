"""Waits for locks against clocks in the program, and holders against what the program did."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from agent import run  # noqa: E402

ROUNDS = int(os.environ.get("PYROMETER_LOCK_ROUNDS", "1500"))

START = """
import sys, threading, time
import pyrometer
profiler = pyrometer.Profiler(upload_interval="1h")
profiler.start()
"""


def mutex_waits(done):
    for sample in done.samples():
        if sample.values["lock-acquire-wait"] and sample.labels.get("wait kind") == "mutex":
            yield sample


def test_a_convoy_of_eight(tmp_path):
    done = run(
        tmp_path,
        START
        + """
lock, waited = threading.Lock(), []
def member():
    mine = 0
    for _ in range(100):
        began = time.monotonic_ns()
        lock.acquire()
        mine += time.monotonic_ns() - began
        sum(range(3000)); time.sleep(0.0002)
        lock.release()
    waited.append(mine)
threads = [threading.Thread(target=member) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
profiler.stop()
print(sum(waited))
""",
        timeout=100,
    )
    assert (done.code, done.err) == (0, "")
    truth = int(done.out)
    measured = sum(
        s.values["lock-acquire-wait"]
        for s in mutex_waits(done)
        if any(name == "member" for name, _, _ in s.stack)
        or s.stack[0][0] == "<acquisitions between samples>"
    )
    assert 0.98 * truth < measured < 1.005 * truth


def test_the_holder_is_the_true_one(tmp_path):
    done = run(
        tmp_path,
        START
        + """
lock, turn = threading.Lock(), threading.Barrier(2)
def hold_left(): time.sleep(0.0005)
def hold_right(): time.sleep(0.0005)
def holder(rounds):
    for i in range(rounds):
        with lock:
            turn.wait()
            (hold_left if i % 2 else hold_right)()
        turn.wait()
def wait_left():
    with lock: pass
def wait_right():
    with lock: pass
def waiter(rounds):
    for i in range(rounds):
        turn.wait()
        (wait_left if i % 2 else wait_right)()
        turn.wait()
threads = [threading.Thread(target=f, args=(int(sys.argv[1]),)) for f in (holder, waiter)]
for t in threads: t.start()
for t in threads: t.join()
profiler.stop()
""",
        str(ROUNDS),
        timeout=100,
    )
    assert (done.code, done.err) == (0, "")
    waiters, true, total = {}, 0, 0
    for sample in mutex_waits(done):
        side = [name[5:] for name, _, _ in sample.stack if name.startswith("wait_")]
        if side:
            total += sample.values["lock-acquire-wait"]
            waiters[sample.labels.get("pair id")] = side[0]
    for sample in done.samples():
        value = sample.values["lock-hold-blocking"]
        side = waiters.get(sample.labels.get("pair id"))
        names = [name for name, _, _ in sample.stack]
        if value and side and "holder" in names:
            # As the wait begins it may still stand in the barrier, or be on its way out.
            wrong = {"left": "hold_right", "right": "hold_left"}[side]
            true += 0 if wrong in names else value
    assert total > ROUNDS * 300_000
    assert true >= 0.99 * total
