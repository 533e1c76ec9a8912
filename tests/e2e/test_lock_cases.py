"""What profilers' wrappers of locks have broken in programs: the program's own results, with the
collector on and off."""

import pytest
from agent import run, with_value
from test_locks import START, STOP

PICKLES = """
import copy, multiprocessing, pickle, queue, threading
class Holder:
    def __init__(self, lock): self.lock = lock
def outcome(action, *arguments):
    try:
        return type(action(*arguments)).__name__
    except Exception as error:
        return repr(error)
made = [threading.Lock(), threading.RLock(), threading.Condition(), threading.Semaphore(),
        threading.Event(), queue.Queue(), Holder(threading.Lock())]
for one in made:
    print(outcome(pickle.dumps, one), outcome(copy.copy, one), outcome(copy.deepcopy, one))
for method in ("fork", "spawn", "forkserver"):
    if __name__ == "__main__":
        with multiprocessing.get_context(method).Manager() as manager:
            table = manager.dict()
            table["a"] = 1
            print(method, dict(table), outcome(table.update, {"lock": made[0]}))
"""


def test_br_066_pickles_copies_and_managers(tmp_path):
    enabled = run(tmp_path, "import pyrometer.auto\n" + PICKLES)
    plain = run(tmp_path, PICKLES, PYROMETER_ENABLED="false")
    assert (enabled.code, enabled.err) == (0, "")
    assert enabled.out == plain.out and "fork {'a': 1}" in plain.out


def test_br_063_taken_here_given_back_there(tmp_path):
    done = run(
        tmp_path,
        START
        + """
import queue
lock, turns = threading.Lock(), 20_000
def give_back():
    for _ in range(turns):
        wanted.get()
        lock.release()
        given.put(None)
wanted, given = queue.Queue(), queue.SimpleQueue()
threads = [threading.Thread(target=give_back)]
for thread in threads: thread.start()
for _ in range(turns):
    assert lock.acquire()
    assert not lock.acquire(False)
    wanted.put(None)
    given.get()
for thread in threads: thread.join()
try: lock.release()
except RuntimeError as error: print(error)
"""
        + STOP,
        timeout=100,
    )
    assert (done.code, done.out, done.err) == (0, "release unlocked lock\n", "")
    assert all(sample.values["lock-release-hold"] >= 0 for sample in done.samples())


RAISES = """
class Own:
    def __init__(self): self.lock = {base}()
    def acquire(self, *arguments): raise AssertionError("mine")
    def release(self): self.lock.release()
    def locked(self): return False  # which Condition wants from 3.14 on
    def __enter__(self): return self.acquire()
    def __exit__(self, *_): self.release()
for action in (lambda: threading.Condition(Own()).acquire(), lambda: Own().__enter__()):
    try: action()
    except AssertionError as error: print(error)
lock = {base}()
for arguments in ((1, 2, 3), (True, -2), ("x",), (False, 1)):
    try: lock.acquire(*arguments); print("got it"); lock.release()
    except Exception as error: print(repr(error))
try:
    with lock: raise AssertionError("inside")
except AssertionError as error: print(error, lock.acquire(False))
"""


@pytest.mark.parametrize("base", ["threading.Lock", "threading.RLock"])
def test_br_070_what_the_program_raises_goes_through(tmp_path, base):
    work = RAISES.format(base=base)
    measured = run(tmp_path, START + work + STOP)
    plain = run(tmp_path, "import threading\n" + work, PYROMETER_ENABLED="false")
    assert (measured.code, measured.out, measured.err) == (0, plain.out, "")
    assert plain.out.startswith("mine\nmine\nTypeError(") and plain.out.endswith("inside True\n")


def test_br_075_logging_at_its_most(tmp_path):
    """Locks of logging are the program's; none of ours is seen, and nothing recurses."""
    done = run(
        tmp_path,
        """
import logging, sys
logging.basicConfig(level=logging.DEBUG, stream=open("log", "w"))
"""
        + START
        + """
def work():
    for number in range(3000): logging.debug("line %d", number)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
        + STOP,
    )
    assert (done.code, done.err) == (0, "")
    samples = with_value(done, "lock-acquire")
    assert samples
    for sample in samples:
        assert "/pyrometer/" not in sample.stack[0][1], sample.stack


def test_handlers_of_signals_that_wait_within_waits(tmp_path):
    """A wait takes little of the thread's stack: what ends in a RecursionError ends in one."""
    done = run(
        tmp_path,
        """
import pyrometer.auto
import signal, threading, time
lock, depth, most = threading.Lock(), 0, 0
def holder():
    with lock: time.sleep(3)
def handler(*unused):
    global depth, most
    depth += 1
    most = max(most, depth)
    try:
        with lock: pass
    finally:
        depth -= 1
thread = threading.Thread(target=holder)
thread.start()
time.sleep(0.05)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while thread.is_alive():
    try:
        time.sleep(0.01)
    except RecursionError:
        signal.setitimer(signal.ITIMER_REAL, 0)
signal.setitimer(signal.ITIMER_REAL, 0)
print(most > 100)
""",
    )
    assert (done.code, done.out, done.err) == (0, "True\n", "")
