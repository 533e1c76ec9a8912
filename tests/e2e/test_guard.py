"""Processes that end within a collector's code: the next one goes without it for ten minutes."""

import os
import re
import signal
import struct
import time
from pathlib import Path

import pytest
from agent import finish, run, start

FOLDER = Path(f"/dev/shm/pyrometer-guard-{os.geteuid()}")
PAGE = 4096
ROW = struct.Struct("24sII")
FIRST_ROW = 16 + 32 + 4 * 8
FIRST_ENDS = 16 + 32 + 2 * 8

pytestmark = pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no /dev/shm")

BUSY = """
import pyrometer.auto, threading, time
from pyrometer import Profiler
for _ in range(200):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
time.sleep(60)
"""
TICKING = {"PYROMETER_SAMPLING_INTERVAL": "1ms", "PYROMETER_OVERHEAD_PCT": "100"}


def page_of(pid):
    return next(FOLDER.glob(f"{pid}.*"))


def counters(page):
    rows = [ROW.unpack_from(page, FIRST_ROW + 32 * index) for index in range(16)]
    return {name.rstrip(b"\0").decode(): inside for name, inside, _ in rows if name[0]}


def ends(file):
    """Sudden ends within the stack collector and elsewhere, and where they stand."""
    page = file.read_bytes()
    for at in range(FIRST_ENDS, len(page), ROW.size):
        name, within, elsewhere = ROW.unpack_from(page, at)
        if name.rstrip(b"\0") == b"stack":
            return (within, elsewhere), at
    return None, 0


def tally_of(record):
    """Where the ends of a record's program are counted. Any start may have removed the record."""
    return FOLDER / f"ends.{PROGRAMS[record]:016x}"


PROGRAMS = {}


def kill(folder, inside):
    """Runs the program and kills it while the stack collector is, or is not, at work."""
    process = start(folder, BUSY, **TICKING)
    deadline = time.monotonic() + 30
    while True:
        process.send_signal(signal.SIGSTOP)
        # Until all its threads stand still.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        file = page_of(process.pid)
        if (counters(file.read_bytes())["stack"] > 0) == inside:
            break
        process.send_signal(signal.SIGCONT)
        assert time.monotonic() < deadline
        time.sleep(0.0003)
    PROGRAMS[file] = struct.unpack_from("Q", file.read_bytes(), 16 + 32)[0]
    process.kill()
    finish(process, folder)
    return file


STATUS = """
import pyrometer.auto, sys
from pyrometer import Profiler
print(Profiler().status().get("collectors", {}).get("stack"))
"""


def start_again(folder):
    # The record is of a program by its path.
    (folder / "program.py").write_text("")
    return run(folder, STATUS)


def age(file, seconds):
    os.utime(file, (time.time() - seconds, time.time() - seconds))


def test_after_such_an_end_it_starts_without_the_collector(tmp_path):
    file = kill(tmp_path, inside=True)
    for _ in range(2):
        done = start_again(tmp_path)
        seconds = re.search(r"ended in its code; it comes on in (\d+) s", done.out)
        assert seconds and 500 < int(seconds[1]) <= 600, (done.out, done.err)
        assert done.code == 0 and done.err.count("the collector stack is off") == 1
        assert file.exists()
    # Ten minutes later it is tried again, and the record goes.
    age(file, 601)
    done = start_again(tmp_path)
    assert (done.out, done.err) == ("on\n", "")
    assert not file.exists()


def test_the_collector_comes_on_later(tmp_path):
    file = kill(tmp_path, inside=True)
    start_again(tmp_path)
    age(file, 597)
    (tmp_path / "program.py").write_text("")
    for old in tmp_path.glob("app.*"):
        old.unlink()
    done = run(
        tmp_path,
        """
        import logging, sys, threading, time
        logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
        import pyrometer.auto
        from pyrometer import Profiler
        def stack(): return Profiler().status()["collectors"]["stack"]
        def work():
            for _ in range(30): sum(range(100_000))
        print(stack())
        deadline = time.monotonic() + 20
        waits = []
        while (said := stack()) != "on" and time.monotonic() < deadline:
            waits.append(int(said.split()[-2]))
            work()
        print("waits", waits[0] > waits[-1])
        for _ in range(100): work()
        print(stack(), threading.active_count())
        """,
        PYROMETER_UPLOAD_INTERVAL="1s",
    )
    lines = [line for line in done.out.splitlines() if "pyrometer" not in line]
    assert "it comes on in " in lines[0]
    assert "waits True" in lines and "the collector stack is on again" in lines
    assert lines[-1] == "on 1" and done.code == 0
    assert done.stacks("work")
    file.unlink(missing_ok=True)


def test_the_only_collector_comes_on_later(tmp_path):
    """A session with nothing to collect yet starts all the same."""
    file = kill(tmp_path, inside=True)
    start_again(tmp_path)
    age(file, 597)
    others = ("MEMORY", "LOCK", "EXCEPTION", "GC")
    done = run(
        tmp_path,
        """
        import time, pyrometer.auto
        from pyrometer import Profiler
        deadline = time.monotonic() + 20
        while Profiler().status()["collectors"]["stack"] != "on" and time.monotonic() < deadline:
            time.sleep(0.05)
        print(Profiler().status()["collectors"])
        """,
        PYROMETER_UPLOAD_INTERVAL="1s",
        **{f"PYROMETER_{name}_ENABLED": "false" for name in others},
    )
    assert done.out == "{'stack': 'on'}\n"
    file.unlink(missing_ok=True)


def test_killed_elsewhere(tmp_path):
    file = kill(tmp_path, inside=False)
    done = start_again(tmp_path)
    assert (done.out, done.err) == ("on\n", "")
    assert not file.exists()


def test_chance_is_no_fault(tmp_path):
    """Where many end suddenly, some are within the sampler at that moment."""
    tally = tally_of(kill(tmp_path, inside=False))
    start_again(tmp_path)
    within, elsewhere = ends(tally)[0]
    assert within == 0 and elsewhere > 0
    within = kill(tmp_path, inside=True)
    for elsewhere, said in ((15, "ended in its code"), (25, "on")):
        page = bytearray(tally.read_bytes())
        ROW.pack_into(page, ends(tally)[1], b"stack", 1, elsewhere)
        tally.write_bytes(page)
        done = start_again(tmp_path)
        assert said in done.out and done.code == 0, (elsewhere, done.out, done.err)
    within.unlink()


def test_other_programs_do_not_care(tmp_path):
    file = kill(tmp_path, inside=True)
    other = tmp_path / "other"
    other.mkdir()
    done = start_again(other)
    assert (done.out, done.err) == ("on\n", "")
    assert file.exists()
    file.unlink()


@pytest.mark.parametrize(
    "end", ["", "sys.exit(3)", "os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)"]
)
def test_ordinary_ends_leave_nothing(tmp_path, end):
    source = "import os, signal, sys, time, pyrometer.auto\nprint(os.getpid(), flush=True)\n" + end
    done = run(tmp_path, source, **TICKING)
    assert not list(FOLDER.glob(f"{done.out.strip()}.*"))


def test_a_child_has_its_own(tmp_path):
    done = run(
        tmp_path,
        """
        import os, pyrometer.auto, warnings
        from pyrometer import Profiler
        warnings.simplefilter("ignore", DeprecationWarning)
        folder = f"/dev/shm/pyrometer-guard-{os.geteuid()}"
        def pages():
            return [name for name in os.listdir(folder) if name.startswith(f"{os.getpid()}.")]
        assert len(pages()) == 1
        pid = os.fork()
        if pid == 0:
            Profiler().status()
            assert len(pages()) == 1
            os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 4
        assert len(pages()) == 1
        """,
    )
    assert (done.code, done.err) == (0, "")


def test_records_that_are_none(tmp_path):
    FOLDER.mkdir(mode=0o700, exist_ok=True)
    contents = {"zeros": bytes(PAGE), "short": b"PYRGUARD1", "random": os.urandom(PAGE)}
    files = {FOLDER / f"{name}.{os.getpid()}": content for name, content in contents.items()}
    try:
        for file, content in files.items():
            file.write_bytes(content)
        done = run(tmp_path, STATUS)
        assert (done.out, done.err) == ("on\n", "")
        assert all(file.exists() for file in files)
    finally:
        for file in files:
            file.unlink()
