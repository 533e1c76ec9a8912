"""Signals: SIGTERM delivers the last window, every other one is the program's own."""

import signal
import time

import pytest
from agent import finish, run, start

STUCK = """
import ctypes, pyrometer.auto, signal, time
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
def work(): time.sleep(0.5)
def stuck(): ctypes.PyDLL(None).sleep(60)  # with the GIL: nothing in Python can run any more
work()
print("ready", flush=True)
stuck()
"""


def end_by(process, number, folder):
    begin = time.monotonic()
    process.send_signal(number)
    done = finish(process, folder)
    return done, time.monotonic() - begin


def test_br_122_sigterm_while_stuck_in_c(tmp_path):
    process = start(tmp_path, STUCK)
    time.sleep(0.3)
    done, seconds = end_by(process, signal.SIGTERM, tmp_path)
    assert (done.code, done.err) == (-signal.SIGTERM, "")
    assert seconds < 2
    assert len(done.files()) == 1 and done.stacks("work") and done.stacks("stuck")


def test_br_122_sigterm_while_waiting(tmp_path):
    process = start(
        tmp_path,
        """
        import pyrometer.auto, threading, time
        def idle(): time.sleep(60)
        threading.Thread(target=idle, daemon=True).start()
        time.sleep(0.3)
        print("ready", flush=True)
        threading.Event().wait()
        """,
    )
    done, seconds = end_by(process, signal.SIGTERM, tmp_path)
    assert (done.code, done.err) == (-signal.SIGTERM, "")
    assert seconds < 2
    assert len(done.files()) == 1 and done.stacks("idle")


def test_br_122_sigterm_in_a_hook(tmp_path):
    """It interrupts a hook that holds a lock which the last window needs: the hook ends first."""
    source = """
        import pyrometer.auto, threading
        threading.Event()
        print("ready", flush=True)
        lock = threading.Lock()
        while True:  # nearly always in a hook: each exception and many an allocation is sampled
            try:
                with lock:
                    raise ValueError
            except ValueError as error:
                kept = bytearray(100_000)
        """
    settings = {"PYROMETER_EXCEPTION_SAMPLING_INTERVAL": "1", "PYROMETER_HEAP_SAMPLE_SIZE": "16KiB"}
    for attempt in range(8):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        process = start(folder, source, **settings)
        time.sleep(0.02 * attempt)
        done, seconds = end_by(process, signal.SIGTERM, folder)
        assert (done.code, done.err) == (-signal.SIGTERM, "")
        assert len(done.files()) == 1


@pytest.mark.parametrize("first", ["import pyrometer.auto", "pass"])
def test_br_122_own_handler_of_sigterm_is_kept(tmp_path, first):
    process = start(
        tmp_path,
        f"""
        import signal, sys, time
        {first}
        def leave(*_):
            print("mine", flush=True)
            sys.exit(7)
        before = signal.signal(signal.SIGTERM, leave)
        assert before == signal.SIG_DFL
        import pyrometer.auto
        assert signal.getsignal(signal.SIGTERM) is leave
        time.sleep(0.2)
        print("ready", flush=True)
        for _ in range(600):  # a signal just before a sleep begins does not end it, in any program
            time.sleep(0.1)
        """,
    )
    done, seconds = end_by(process, signal.SIGTERM, tmp_path)
    assert (done.code, done.out, done.err) == (7, "mine\n", "")
    assert len(done.files()) == 1 and done.samples()


def test_ignored_sigterm_stays_ignored(tmp_path):
    source = """
        import os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        import pyrometer.auto
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        print("alive")
        """
    done = run(tmp_path, source)
    assert (done.code, done.out, done.err) == (0, "alive\n", "")


def test_sigterm_is_given_back_at_stop(tmp_path):
    source = """
        def action():
            with open("/proc/self/status") as status:
                caught = [line for line in status if line.startswith("SigCgt")][0]
            return int(caught.split()[1], 16) >> 14 & 1
        from pyrometer import Profiler
        profiler = Profiler()
        before = action()
        profiler.start()
        during = action()
        profiler.stop()
        print(before, during, action())
        """
    assert run(tmp_path, source).out == "0 1 0\n"


def test_sigterm_that_is_given_back_is_handled_again(tmp_path):
    """As uvicorn does at its end: its own handler goes, and SIGTERM is raised once more."""
    source = """
        import signal, time, pyrometer.auto
        kind = type(signal.signal), signal.getsignal(signal.SIGTERM)
        def work(): time.sleep(0.3)
        before = signal.signal(signal.SIGTERM, print)
        work()
        assert signal.signal(signal.SIGTERM, before) is print
        assert (type(signal.signal), signal.getsignal(signal.SIGTERM)) == kind
        signal.raise_signal(signal.SIGTERM)
        """
    done = run(tmp_path, source)
    assert (done.code, done.out, done.err) == (-signal.SIGTERM, "", "")
    assert len(done.files()) == 1 and done.stacks("work")


def test_sigint_is_untouched(tmp_path):
    # What runs the tests may ignore SIGINT, as jobs in a shell's background do.
    source = """
        import signal, time
        signal.signal(signal.SIGINT, signal.default_int_handler)
        import pyrometer.auto
        print("ready", flush=True)
        time.sleep(60)
        """
    process = start(tmp_path, source)
    time.sleep(0.2)
    done, seconds = end_by(process, signal.SIGINT, tmp_path)
    assert done.code == -signal.SIGINT and "KeyboardInterrupt" in done.err
    assert len(done.files()) == 1


def test_only_sigterm_is_handled(tmp_path):
    source = """
        def masks():
            with open("/proc/self/status") as status:
                rows = dict(line.split() for line in status if line.startswith("Sig"))
            # Beyond 31 are those that libc itself uses once there are threads; bit 14 is SIGTERM.
            return [int(rows[name], 16) & 0x7FFFBFFF for name in ("SigCgt:", "SigIgn:", "SigBlk:")]
        from pyrometer import Profiler
        before = masks()
        Profiler().start()
        assert masks() == before
        """
    done = run(tmp_path, source)
    assert (done.code, done.err) == (0, "")


def test_br_027_alternate_signal_stacks(tmp_path):
    source = """
        import ctypes, threading
        libc = ctypes.CDLL(None, use_errno=True)
        class Stack(ctypes.Structure):
            _fields_ = [("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
        from pyrometer import Profiler
        def check():
            memory = ctypes.create_string_buffer(65536)
            wanted = Stack(ctypes.addressof(memory), 0, 65536)
            assert libc.sigaltstack(ctypes.byref(wanted), None) == 0
            profiler = Profiler()
            profiler.start()
            profiler.flush()
            profiler.stop()
            found = Stack()
            assert libc.sigaltstack(None, ctypes.byref(found)) == 0
            assert (found.sp, found.flags, found.size) == (wanted.sp, 0, 65536)
            off = Stack(None, 2, 0)
            libc.sigaltstack(ctypes.byref(off), None)
        check()
        thread = threading.Thread(target=check)
        thread.start()
        thread.join()
        print("done")
        """
    done = run(tmp_path, source)
    assert (done.code, done.out, done.err) == (0, "done\n", "")


def test_br_028_no_interrupted_system_calls(tmp_path):
    """poll, select, nanosleep and read in C return EINTR to whoever is signalled: nobody is."""
    source = """
        import ctypes, os, threading, time
        from pyrometer import Profiler
        Profiler(sampling_interval="1ms", overhead_pct=100).start()
        libc = ctypes.CDLL(None, use_errno=True)
        class Time(ctypes.Structure):
            _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]
        results = []
        def poll():
            results.append(libc.poll(None, 0, 2000))
        def select():
            results.append(libc.select(0, None, None, None, ctypes.byref(Time(2, 0))))
        def sleep():
            results.append(libc.nanosleep(ctypes.byref(Time(2, 0)), None))
        def read():
            reading, writing = os.pipe()
            threading.Timer(2, os.write, (writing, b"x")).start()
            results.append(libc.read(reading, ctypes.create_string_buffer(1), 1) - 1)
        def spin():
            end = time.thread_time() + 1
            while time.thread_time() < end: pass
        threads = [threading.Thread(target=f) for f in (poll, select, sleep, read, spin)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(results)
        """
    done = run(tmp_path, source)
    assert (done.code, done.out, done.err) == (0, "[0, 0, 0, 0]\n", "")


def test_br_029_wakeup_descriptor_stays_empty(tmp_path):
    source = """
        import os, signal, time, pyrometer.auto
        reading, writing = os.pipe()
        os.set_blocking(reading, False); os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=True)
        time.sleep(1)
        try:
            print(os.read(reading, 100))
        except BlockingIOError:
            print("empty")
        """
    done = run(tmp_path, source)
    assert (done.code, done.out, done.err) == (0, "empty\n", "")


def test_foreign_handlers_and_timers(tmp_path):
    """faulthandler, a handler of SIGSEGV and an interval timer go on as before."""
    source = """
        import faulthandler, signal, time
        faulthandler.enable()
        ticks = []
        signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        import pyrometer.auto
        end = time.monotonic() + 1
        while time.monotonic() < end: sum(range(100))
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert faulthandler.is_enabled()
        print(len(ticks) > 20)
        """
    done = run(tmp_path, source)
    assert (done.code, done.out, done.err) == (0, "True\n", "")
