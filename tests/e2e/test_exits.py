"""Ends of programs: always the program's own exit code, soon, with the last window delivered."""

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from agent import environment, run


def exits(folder, source, count):
    """Exit codes and texts of `count` runs, two at a time."""

    def once(_):
        done = subprocess.run(
            [sys.executable, "-c", source],
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )
        return done.returncode, done.stdout + done.stderr

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(once, range(count)))


@pytest.mark.parametrize("milliseconds", [0, 1, 5, 20])
def test_br_001_short_programs(tmp_path, milliseconds):
    source = f"import pyrometer.auto, time, sys; time.sleep({milliseconds / 1000}); sys.exit(3)"
    assert set(exits(tmp_path, source, 40)) == {(3, "")}


def test_br_001_random_moments_with_threads(tmp_path):
    source = """
import pyrometer.auto, random, sys, threading, time
def spin():
    while True: [i for i in range(50)]
for _ in range(2): threading.Thread(target=spin, daemon=True).start()
time.sleep(random.random() * 0.05)
sys.exit(4)
"""
    assert set(exits(tmp_path, source, 60)) == {(4, "")}


def test_br_001_starts_and_stops_while_ending(tmp_path):
    source = """
import threading, sys, time
from pyrometer import Profiler
def toggle():
    while True:
        profiler = Profiler(); profiler.start(); profiler.stop(flush=False)
threading.Thread(target=toggle, daemon=True).start()
time.sleep(0.02)
sys.exit(6)
"""
    assert {code for code, _ in exits(tmp_path, source, 40)} == {6}


def test_br_123_exits_while_delivering(tmp_path):
    random.seed(123)
    source = """
import pyrometer.auto, random, sys, threading, time
from pyrometer import Profiler
def flush():
    while True: Profiler().flush()
threading.Thread(target=flush, daemon=True).start()
time.sleep(random.random() * 0.1)
sys.exit(5)
"""
    assert set(exits(tmp_path, source, 60)) == {(5, "")}


def test_br_009_unlimited_stack(tmp_path):
    source = """
        import pyrometer.auto, time
        def busy():
            end = time.thread_time() + 0.4
            while time.thread_time() < end: pass
        busy()
        """
    wrapper = ("bash", "-c", 'ulimit -s unlimited && exec "$@"', "-")
    done = run(tmp_path, source, wrapper=wrapper)
    assert (done.code, done.err) == (0, "")
    assert done.stacks("busy")


def test_exception_in_the_main_thread(tmp_path):
    done = run(tmp_path, "import pyrometer.auto, time\ntime.sleep(0.1)\nraise KeyError('mine')")
    assert done.code == 1
    assert done.err.splitlines()[-1] == "KeyError: 'mine'"
    assert len(done.files()) == 1


def test_sys_exit_in_a_thread(tmp_path):
    done = run(
        tmp_path,
        """
        import pyrometer.auto, sys, threading, time
        def leave():
            time.sleep(0.1)
            sys.exit(9)
        thread = threading.Thread(target=leave); thread.start(); thread.join()
        time.sleep(0.1)
        """,
    )
    assert (done.code, done.err) == (0, "")
    assert done.stacks("leave")


def test_os_exit_loses_only_the_open_window(tmp_path):
    done = run(
        tmp_path,
        """
        import os, pyrometer.auto, time
        from pyrometer import Profiler
        def first(): time.sleep(0.2)
        def second(): time.sleep(0.2)
        first()
        assert Profiler().flush()
        second()
        os._exit(2)
        """,
    )
    assert (done.code, done.err) == (2, "")
    assert done.stacks("first") and not done.stacks("second")


def test_exit_by_c_code_delivers(tmp_path):
    """Without Python's own end: neither atexit nor finalization."""
    done = run(
        tmp_path,
        """
        import atexit, ctypes, pyrometer.auto, time
        atexit.register(print, "not seen")
        def work(): time.sleep(0.3)
        work()
        ctypes.PyDLL(None).exit(9)
        """,
    )
    assert (done.code, done.out, done.err) == (9, "", "")
    assert len(done.files()) == 1 and done.stacks("work")


def test_handlers_of_atexit_are_profiled(tmp_path):
    done = run(
        tmp_path,
        """
        import pyrometer.auto, atexit, time
        def late(): time.sleep(0.3)
        atexit.register(late)
        """,
    )
    assert (done.code, done.err) == (0, "")
    assert done.stacks("late")


SLOW_DISK = """
#include <unistd.h>
int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    (void)a, (void)from, (void)b, (void)to, (void)flags;
    sleep(30);
    return 0;
}
"""


def test_hanging_delivery_does_not_hold_the_exit(tmp_path):
    """A file system that does not answer: a library in front of libc stands in for it."""
    (tmp_path / "slow.c").write_text(SLOW_DISK)
    library = tmp_path / "slow.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "slow.c"], check=True)
    source = """
        import atexit, time
        def told(): print(time.monotonic() - begun)
        atexit.register(told)
        import pyrometer.auto
        def begin():
            global begun
            begun = time.monotonic()
        atexit.register(begin)
        time.sleep(0.1)
        """
    done = run(tmp_path, source, LD_PRELOAD=str(library))
    assert done.code == 0
    assert 0.9 < float(done.out) < 2
    assert done.err == "the last window was not delivered in time\n"
