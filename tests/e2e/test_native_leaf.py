"""The C function being called is the leaf frame; what calls it is the right Python function."""

import pytest
from agent import run

PROGRAM = """
import threading, time, zlib
import pyrometer.auto

DATA = bytes(range(256)) * 400
NUMBERS = [(n * 7919) % 10007 for n in range(20000)]
LOCK = threading.Lock()
END = time.monotonic() + 2.5

def until_end(function):
    def loop():
        while time.monotonic() < END:
            function()
    return loop

def compress(): zlib.compress(DATA)
def order(): sorted(NUMBERS, reverse=True)
def order_in_place(): list(NUMBERS).sort(key=str)
def spread(): dict(**{"a": max(*NUMBERS)})
def sleep(): time.sleep(0.3)
def acquire(): LOCK.acquire(timeout=0.3)
def enter():
    with LOCK:
        pass

LOCK.acquire()
threads = [threading.Thread(target=until_end(f))
           for f in (compress, order, order_in_place, spread, sleep, acquire)]
threads.append(threading.Thread(target=enter))
for thread in threads: thread.start()
for thread in threads[:-1]: thread.join()
LOCK.release()
threads[-1].join()
"""

# The Python function that calls, and all C functions that it can be seen calling.
CALLS = {
    "compress": {"zlib.compress"},
    "order": {"sorted"},
    "order_in_place": {"list.sort", "list"},
    "spread": {"max", "dict"},
    "sleep": {"time.sleep"},
    "acquire": {"_thread.lock.acquire"},
    "enter": {"_thread.lock.__enter__", "_thread.lock.__exit__"},
}


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    done = run(tmp_path_factory.mktemp("native_leaf"), PROGRAM)
    assert done.code == 0, done.err
    return done.samples()


@pytest.mark.parametrize("caller", CALLS)
def test_native_leaf_is_what_the_source_calls(samples, caller):
    names = {}
    for sample in samples:
        (leaf, file, _), *above = sample.stack
        if file == "<native>" and above and above[0][0] == caller:
            names[leaf] = names.get(leaf, 0) + sample.values["wall-time"]
    assert names, f"no C function was found in {caller}"
    assert set(names) <= CALLS[caller]
    # The one that takes the time is there; list() and dict() take little.
    assert max(names, key=names.get) in CALLS[caller] - {"list", "dict", "_thread.lock.__exit__"}


def test_native_frames_are_leaves_only(samples):
    for sample in samples:
        assert all(file != "<native>" for _, file, _ in sample.stack[1:])
