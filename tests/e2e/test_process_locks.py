"""Waits for the locks of multiprocessing, in forked processes and in others."""

import pytest
from agent import names, run, with_value

WORK = """
import multiprocessing, os, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import pyrometer.auto
def profiled():
    from pyrometer import Profiler
    while "locks" not in Profiler().status(): time.sleep(0.005)
"""
MAIN = """
if __name__ == "__main__":
    main()
"""


def of(done, value, kind):
    return sum(
        s.values[value] for s in with_value(done, value) if s.labels.get("lock type") == kind
    )


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("kind", ["Lock", "RLock", "Semaphore", "BoundedSemaphore"])
def test_waits_in_processes(tmp_path, method, kind):
    done = run(
        tmp_path,
        WORK
        + f"""
def work(lock, ready, waited):
    profiled()
    ready.wait()
    mine = 0
    for i in range(4):
        began = time.monotonic()
        if i % 2:
            assert lock.acquire(timeout=60) is True
        else:
            assert lock.acquire() is True
        mine += time.monotonic() - began
        time.sleep(0.03)
        lock.release()
        with lock: pass
    with waited.get_lock(): waited.value += mine
def main():
    context = multiprocessing.get_context({method!r})
    lock, ready = context.{kind}(), context.Barrier(3)
    waited = context.Value("d", 0)
    workers = [context.Process(target=work, args=(lock, ready, waited)) for _ in range(3)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    print(waited.value)
"""
        + MAIN,
    )
    assert (done.code, done.err) == (0, "")
    truth = float(done.out) * 1e9
    # A semaphore that is bounded to one is what a lock is made of.
    kind = "multiprocessing." + kind.replace("BoundedSemaphore", "Lock")
    waits = [
        s
        for s in with_value(done, "lock-acquire-wait")
        if s.labels.get("lock type") == kind
        and "work" in names(s)
        and "Barrier.wait" not in names(s)
    ]
    measured = sum(s.values["lock-acquire-wait"] for s in waits)
    # The short ones of `with` are not in the program's sum.
    assert 0.95 * truth < measured
    assert all(s.labels["wait kind"] == "mutex" for s in waits)
    holds = of(done, "lock-release-hold", kind)
    assert 0.5 * 3 * 4 * 0.03e9 < holds  # they are sampled
    assert of(done, "lock-acquire", kind) <= 3 * (4 + 4) + 40  # a few of the barrier's


def test_who_waits_for_work_is_parked(tmp_path):
    done = run(
        tmp_path,
        WORK
        + """
def nap(_):
    profiled()
    time.sleep(0.01)
def main():
    context = multiprocessing.get_context("fork")
    with context.Pool(3) as pool:
        pool.map(nap, range(30), chunksize=1)
        time.sleep(0.7)
        pool.map(nap, range(30), chunksize=1)
        pool.close(); pool.join()
    queue, event = context.Queue(), context.Event()
    def consume():
        profiled()
        while queue.get() is not None: pass
        event.wait()
    workers = [context.Process(target=consume) for _ in range(3)]
    for worker in workers: worker.start()
    time.sleep(0.6)
    for worker in workers: queue.put(None)
    time.sleep(0.2)
    event.set()
    for worker in workers: worker.join()
"""
        + MAIN,
    )
    assert (done.code, done.err) == (0, "")
    waits = [
        s
        for s in with_value(done, "lock-acquire-wait")
        if s.labels.get("lock type", "").startswith("multiprocessing.")
    ]
    parked = sum(s.values["lock-acquire-wait"] for s in waits if s.labels["wait kind"] == "park")
    mutex = [s for s in waits if s.labels["wait kind"] == "mutex"]
    assert parked > 1.5e9
    assert sum(s.values["lock-acquire-wait"] for s in mutex) < 0.05 * parked, mutex


@pytest.mark.parametrize("own", ["", "context.Lock()"])
def test_who_was_woken_waits_for_the_lock_of_its_condition(tmp_path, own):
    done = run(
        tmp_path,
        WORK
        + f"""
context = multiprocessing.get_context("fork")
condition, waiting = context.Condition({own}), context.Semaphore(0)
def woken():
    with condition:
        waiting.release()
        condition.wait()
def main():
    threads = [threading.Thread(target=woken) for _ in range(3)]
    for thread in threads: thread.start()
    for thread in threads: waiting.acquire()
    with condition:
        condition.notify_all()
        time.sleep(0.6)
    for thread in threads: thread.join()
"""
        + MAIN,
    )
    assert (done.code, done.err) == (0, "")
    waits = {"mutex": 0, "park": 0}
    for sample in with_value(done, "lock-acquire-wait"):
        if sample.labels.get("lock type", "").startswith("multiproc") and names(sample)[0] in (
            "Condition.wait",
            "SemLock.acquire",
        ):
            waits[sample.labels["wait kind"]] += sample.values["lock-acquire-wait"]
    assert waits["mutex"] > 0.5e9, waits


LOOKS = """
{start}
import copy, multiprocessing, pickle, _multiprocessing, weakref
context = multiprocessing.get_context("fork")
SemLock = _multiprocessing.SemLock
print(sorted(vars(SemLock)), [type(vars(SemLock)[n]).__name__ for n in sorted(vars(SemLock))])
for kind in ("Lock", "RLock", "Semaphore", "BoundedSemaphore"):
    lock = getattr(context, kind)()
    print(type(lock), repr(lock))
    raw = lock._semlock
    print(raw.acquire.__doc__, repr(type(raw).acquire), raw.acquire.__self__ is raw)
    print(lock.acquire(), lock.acquire(False), lock.acquire(block=False), lock.acquire(True, 0.01),
          lock.acquire(timeout=0.01), lock.acquire(False, 1))
    print(raw._count(), repr(lock))
    for wrong in (lambda: lock.acquire("x", "y"), lambda: lock.acquire(1, 2, 3),
                  lambda: lock.acquire(what=1), lambda: raw.release(1), lambda: pickle.dumps(lock)):
        try: print(wrong())
        except Exception as error: print(type(error), error)
    count = raw._count()
    for _ in range(count + 1):
        try: print(lock.release())
        except Exception as error: print(type(error), error)
    with lock as inner: print(inner, raw._count())
    print(raw._count(), raw._is_mine(), raw._get_value() > 0)
    try:
        with lock: raise KeyError("through")
    except KeyError as error: print(error, raw._count())
"""


def test_nothing_tells_that_they_are_measured(tmp_path):
    plain = run(tmp_path, LOOKS.format(start=""))
    (tmp_path / "b").mkdir()
    measured = run(tmp_path / "b", LOOKS.format(start="import pyrometer.auto"))
    assert plain.code == 0, plain.err
    assert (measured.code, measured.out) == (0, plain.out)


def test_a_semaphore_that_others_have_too_is_no_deadlock(tmp_path):
    done = run(
        tmp_path,
        """
import multiprocessing, threading, time
import pyrometer
profiler = pyrometer.Profiler(upload_interval="1h")
profiler.start()
two, lock = multiprocessing.Semaphore(2), threading.Lock()
steps = [threading.Event() for _ in range(3)]
def goes_on():
    with two: steps[0].set(); time.sleep(1)
def has_the_lock():
    with lock:
        steps[1].set()
        steps[2].wait()
        with two: pass
def has_the_other():
    steps[0].wait(); steps[1].wait()
    with two:
        steps[2].set()
        with lock: pass
threads = [threading.Thread(target=f) for f in (goes_on, has_the_lock, has_the_other)]
for thread in threads: thread.start()
for thread in threads: thread.join()
found = profiler.status()["locks"]
print(found["contended"] >= 2, found["deadlocks"]) # both waits were there
profiler.stop()
""",
    )
    assert (done.code, done.err, done.out) == (0, "", "True 0\n")


def test_signals_starts_and_the_end(tmp_path):
    done = run(
        tmp_path,
        """
import multiprocessing, signal, threading, time, pyrometer
context = multiprocessing.get_context("fork")
lock, rlock, stop = context.Lock(), context.RLock(), False
def churn():
    while not stop:
        with rlock:
            with rlock, lock: pass
threads = [threading.Thread(target=churn) for _ in range(3)]
for t in threads: t.start()
for i in range(40):
    profiler = pyrometer.Profiler(upload_interval="1h")
    profiler.start()
    time.sleep(0.002)
    profiler.stop(flush=False)
profiler.start()
stop = True
for t in threads: t.join()
assert lock._semlock._get_value() == 1
lock.acquire()
def interrupt(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.05)
def interrupted():
    try: lock.acquire()
    except KeyboardInterrupt: print("interrupted")
interrupted()
threading.Thread(target=lock.acquire, daemon=True).start()
time.sleep(0.05)
""",
    )
    assert (done.code, done.err) == (0, "")
    assert done.out == "interrupted\n"
