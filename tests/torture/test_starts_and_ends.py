"""Programs that start and end, or are ended, at any moment: the exit code is always their own."""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pprof
import pytest
from agent import environment, write
from conftest import seconds

COUNT = 300 if seconds(0) else 60

# What a short program may do, and how it ends.
PROGRAM = """
import pyrometer.auto, os, random, sys, threading, time
random.seed(int(sys.argv[1]))
def spin():
    while True: sum(range(100))
for _ in range(random.randrange(4)):
    threading.Thread(target=spin, daemon=True).start()
if random.random() < 0.3:
    threading.Thread(target=time.sleep, args=(random.random() * 0.02,)).start()
time.sleep(random.choice((0, 0, 0.0001, 0.001, random.random() * 0.06)))
how = sys.argv[2]
if how == "exit": sys.exit(11)
if how == "raise": raise ValueError("mine")
if how == "os._exit": os._exit(12)
if how == "abort": os.abort()
if how == "fork":
    pid = os.fork()
    if pid == 0: sys.exit(13)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
if how == "exec": os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(14)"])
if how == "atexit":
    import atexit
    atexit.register(lambda: os._exit(15))
"""
CODES = {
    "end": 0,
    "exit": 11,
    "raise": 1,
    "os._exit": 12,
    "abort": -signal.SIGABRT,
    "fork": 13,
    "exec": 14,
    "atexit": 15,
}


def start(program, folder, *arguments, **settings):
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", str(program), *arguments],
        env=environment(folder / "out", PYROMETER_SAMPLING_INTERVAL="1ms", **settings),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None, "", "it hangs"
    # Of so many ends at random moments two may fall into ticks: the next starts say so, rightly.
    err = "".join(line for line in err.splitlines(True) if "ended in its code" not in line)
    return process.returncode, out, err


def patience():
    """Seconds that an end may take longer because others want the CPUs."""
    return 0.5 * os.getloadavg()[0] / os.cpu_count()


def insist(process):
    """An interrupt within a callback of CPython's import system is shown and goes no further, also
    without us: then it comes again."""
    for _ in range(5):
        try:
            process.wait(timeout=5)
            return
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)


@pytest.mark.timeout(900)
def test_br_001_every_way_to_end(tmp_path):
    program = write(tmp_path, PROGRAM)

    def once(number):
        how = list(CODES)[number % len(CODES)]
        # Whose last window takes longer than a second, on a busy machine, says so.
        settings = {"PYROMETER_EXIT_TIMEOUT": "30s"}
        code, out, err = finish(start(program, tmp_path, str(number), how, **settings))
        own = "ValueError: mine" in err if how == "raise" else err == ""
        return None if code == CODES[how] and out == "" and own else (number, how, code, out, err)

    with ThreadPoolExecutor(2) as pool:
        assert [row for row in pool.map(once, range(COUNT)) if row] == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_br_122_ended_at_random_moments(tmp_path, number):
    """From outside, also while the interpreter or the profiler is only starting."""
    program = write(tmp_path, "import pyrometer.auto, time\nwhile True: time.sleep(0.001)\n")
    source = random.Random(number)
    for _ in range(COUNT // 4):
        process = start(program, tmp_path)
        time.sleep(source.random() * 0.25)
        begun = time.monotonic()
        process.send_signal(number)
        if number == signal.SIGINT:
            insist(process)
        code, _, err = finish(process)
        # An interrupt can end the start of the interpreter itself in other ways than the program.
        assert code == -number or (number == signal.SIGINT and code == 1), (code, err)
        if number != signal.SIGINT:
            assert err == "" and time.monotonic() - begun < 5 + patience()


STUCK = """
import ctypes, pyrometer.auto, signal, sys, threading, time
def before(): time.sleep(0.3)
def stuck(): ctypes.PyDLL(None).sleep(60)
before()
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
print("ready", flush=True)
if sys.argv[1] == "thread":
    threading.Thread(target=stuck).start()
    threading.Event().wait()
if sys.argv[1] == "regex":
    import re
    def stuck(): re.match(r"(a+)+$", "a" * 60 + "b")
if sys.argv[1] == "number":
    def stuck(): 7 ** (10 ** 9)
stuck()
"""


@pytest.mark.parametrize("where", ["main", "thread", "regex", "number"])
def test_br_122_sigterm_while_stuck_in_c(tmp_path, where):
    """With the GIL held in C, nothing of Python runs any more: it dies within a second, as it would
    unprofiled, and its last window is there."""
    process = start(write(tmp_path, STUCK), tmp_path, where)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3 + patience())  # it is looked at where it is stuck
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code, _, err = finish(process)
    took = time.monotonic() - begun
    assert (code, err) == (-signal.SIGTERM, "")
    assert took < 1 + patience()
    (file,) = (tmp_path / "out").glob("*.pprof")
    names = {
        name for sample in pprof.parse(file.read_bytes()).samples for name, _, _ in sample.stack
    }
    assert {"before", "stuck"} <= names
