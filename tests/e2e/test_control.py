"""`pyrometer ctl` and pyrometer.control: asking and steering a process that runs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agent import finish, run, start

PROGRAM = """
import os, sys, threading, time
import pyrometer.auto
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(300))
print("ready", flush=True)
sys.stdin.close()
while not os.path.exists("end"):
    burn(0.02)
    time.sleep(0.01)
"""


def ctl(process, *words, code=0):
    pid = getattr(process, "pid", process)
    done = subprocess.run(
        [sys.executable, "-m", "pyrometer", "ctl", str(pid), *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    assert done.stderr.count("\n") == (code != 0), done.stderr
    return done.stdout if code == 0 else done.stderr


def facts(process):
    return json.loads(ctl(process, "status", "--json"))


def threads(process):
    names = []
    for path in Path(f"/proc/{process.pid}/task").glob("*/comm"):
        try:
            names.append(path.read_text().strip())
        except OSError:
            pass  # it has just ended
    return sorted(names)


def end(process, folder):
    (folder / "end").touch()
    return finish(process, folder)


def test_status_flush_stop_start_set(tmp_path):
    process = start(tmp_path, PROGRAM, PYROMETER_SERVICE="shop")
    running = facts(process)
    assert running["answer"] == {"ok": 1, "running": 1}
    assert running["identity"]["service"] == "shop" and running["identity"]["pid"] > 0
    shown = ctl(process, "status")
    assert shown.startswith("running\n")
    assert re.search(r"^identity\.service +shop$", shown, re.M)

    out = tmp_path / "out"
    assert not list(out.glob("*.pprof"))
    assert ctl(process, "flush") == ""
    assert len(list(out.glob("*.pprof"))) == 1

    assert ctl(process, "stop") == ""
    assert len(list(out.glob("*.pprof"))) == 2
    for _ in range(200):  # the kernel lists a thread for a moment after it was joined
        ours = [name for name in threads(process) if name.startswith("pyr")]
        if ours == ["pyr-control"]:
            break
        time.sleep(0.01)
    assert ours == ["pyr-control"]
    assert facts(process)["answer"]["running"] == 0
    assert ctl(process, "status").startswith("stopped\n")
    assert "stopped already" in ctl(process, "stop", code=1)
    assert "stopped" in ctl(process, "flush", code=1)
    before = Path(f"/proc/{process.pid}/task")
    ticks = {
        task.name: (task / "stat").read_text().split(")")[1].split()[11:13]
        for task in before.iterdir()
        if (task / "comm").read_text().strip() == "pyr-control"
    }
    time.sleep(0.5)
    for name, used in ticks.items():  # it sleeps, and nothing wakes it
        assert (before / name / "stat").read_text().split(")")[1].split()[11:13] == used
    assert len(list(out.glob("*.pprof"))) == 2

    assert ctl(process, "set", "max_frames=11") == ""  # for the next start
    assert ctl(process, "start", "SAMPLING_INTERVAL=7ms") == ""
    again = facts(process)
    assert again["answer"]["running"] == 1
    assert again["tick"]["interval_set_ns"] == 7000000
    assert again["settings"]["MAX_FRAMES"] == "11"
    assert again["identity"]["service"] == "shop"
    assert again["identity"]["runtime_id"] == running["identity"]["runtime_id"]
    assert "runs already" in ctl(process, "start", code=1)
    assert ctl(process, "set", "sampling_interval=3ms", "tags=a:b") == ""
    changed = facts(process)
    assert changed["tick"]["interval_set_ns"] == 3000000
    assert changed["settings"]["MAX_FRAMES"] == "11" and changed["settings"]["TAGS"] == "a:b"

    done = end(process, tmp_path)
    assert (done.code, done.err) == (0, "")
    assert len(done.files()) >= 4
    # Every window has its CPU, and nothing is counted twice.
    for profile in done.profiles():
        assert profile.total("cpu-time") <= 1.1 * profile.duration_ns + 20_000_000


def test_what_is_wrong_is_said_and_changes_nothing(tmp_path):
    process = start(tmp_path, PROGRAM)
    for words, text in (
        (["set", "sampling_intervall=5ms"], "did you mean SAMPLING_INTERVAL?"),
        (["set", "sampling_interval=5y"], "SAMPLING_INTERVAL"),
        (["set", "sampling_interval=90s"], "SAMPLING_INTERVAL"),
        (["set", "sampling_interval"], "NAME=VALUE"),
        (["set"], "NAME=VALUE"),
        (["set", "url=ftp://x"], "no address"),
        (["set", "enabled=false"], "start and stop"),
        (["start", "process_pct=5"], "when the process starts"),
        (["stop", "max_frames=5"], "nothing more"),
        (["restart"], "status, flush, start, stop and set"),
    ):
        assert text in ctl(process, *words, code=1)
    assert facts(process)["tick"]["interval_set_ns"] == 10000000
    assert "no process id" in ctl("one", "status", code=2)
    assert "there is no process" in ctl(1 << 22, "status", code=2)
    assert "no profiler listens" in ctl(os.getpid(), "status", code=2)
    assert end(process, tmp_path).code == 0


def test_only_the_owner(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    process = start(tmp_path, PROGRAM)
    script = (
        "import os, socket, sys\n"
        "from pyrometer import control\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "connection = socket.socket(socket.AF_UNIX)\n"
        f"connection.connect(control._address({process.pid}))\n"
        "try: connection.sendall(b'stop'); connection.shutdown(socket.SHUT_WR)\n"
        "except OSError: pass\n"
        "try: print(connection.recv(100))\n"
        "except OSError: print(b'')\n"
        f"try: control.stop({process.pid})\n"
        "except control.Refused as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first == "b''" and ("another user" in second or "does not answer" in second)
    assert facts(process)["answer"]["running"] == 1
    assert end(process, tmp_path).code == 0


def test_from_python(tmp_path):
    process = start(tmp_path, PROGRAM)
    (tmp_path / "other").mkdir()
    done = run(
        tmp_path / "other",
        f"""
from pyrometer import control
pid = {process.pid}
print(control.status(pid)["running"])
control.flush(pid)
control.stop(pid)
print(control.status(pid)["running"])
for call in (lambda: control.stop(pid), lambda: control.set(pid, nonsense=1),
             lambda: control.start(pid, sampling_interval="1y"), lambda: control.stop()):
    try:
        call()
    except control.Refused as error:
        print("refused:", error)
control.start(pid, sampling_interval="7ms")
print(control.status(pid)["tick"]["interval_set_ns"])
""",
    )
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:3] == ["True", "False", "refused: it is stopped already"]
    assert "no setting NONSENSE" in lines[3] and "SAMPLING_INTERVAL" in lines[4]
    assert "never started" in lines[5] and lines[6] == "7000000"
    assert end(process, tmp_path).code == 0


def test_in_this_process(tmp_path):
    done = run(
        tmp_path,
        """
import os, time
from pyrometer import Profiler, control
profiler = Profiler(sampling_interval="5ms")
profiler.start()
def burn():
    end = time.thread_time() + 0.1
    while time.thread_time() < end: sum(range(300))
burn()
control.flush()
control.set(max_frames=9)
print(control.status()["settings"]["MAX_FRAMES"], control.status()["tick"]["interval_set_ns"])
control.stop()
print(control.status()["running"], sorted(os.listdir("/proc/self/task")) == [str(os.getpid())])
control.start()
print(control.status()["running"])
burn()
try: control.set(sampling_interval=0)
except control.Refused as error: print(error)
profiler.stop()
limit = time.monotonic() + 5  # a joined thread is counted for a moment more
while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < limit: time.sleep(0.001)
print(control.status()["running"], len(os.listdir("/proc/self/task")))
""",
    )
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "9 5000000" and lines[2] == "True" and lines[4] == "False 1"
    assert lines[1].startswith("False") and "SAMPLING_INTERVAL" in lines[3]
    assert len(done.files()) >= 3


def test_switched_off_there_is_no_door(tmp_path):
    process = start(tmp_path, PROGRAM, PYROMETER_CONTROL_ENABLED="false")
    assert "pyr-control" not in threads(process)
    assert "no profiler listens" in ctl(process, "status", code=2)
    assert end(process, tmp_path).code == 0


def test_a_program_stuck_in_c_can_be_asked(tmp_path):
    """status and flush need no GIL; what needs it waits for it."""
    process = start(
        tmp_path,
        PROGRAM.replace(
            'print("ready", flush=True)',
            """import ctypes
def hold():
    ctypes.PyDLL(None).usleep(3_000_000)  # with the GIL
threading.Timer(0.3, hold).start()
print("ready", flush=True)""",
        ),
    )
    time.sleep(0.8)
    begin = time.monotonic()
    assert facts(process)["answer"]["running"] == 1
    ctl(process, "flush")
    ctl(process, "stop")
    assert time.monotonic() - begin < 15
    assert end(process, tmp_path).code == 0


def test_children_have_doors_of_their_own(tmp_path):
    """A fork's child has its own, and of its parent's nothing, running or stopped."""
    process = start(
        tmp_path,
        PROGRAM.replace(
            'print("ready", flush=True)',
            """
def descriptors():
    return [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{n}") or os.path.islink(f"/proc/self/fd/{n}")]
def child():
    sockets = [text for text in descriptors() if text.startswith("socket")]
    with open(f"child.{os.getpid()}", "w") as file: file.write(str(len(sockets)))
    os.rename(f"child.{os.getpid()}", f"born.{os.getpid()}")
    while not os.path.exists("end"): burn(0.02); time.sleep(0.02)
    os._exit(0)
if os.fork() == 0: child()
print("ready", flush=True)
while not os.path.exists("second"): time.sleep(0.02)
if os.fork() == 0: child()
""",
        ),
    )

    def children(count):
        limit = time.monotonic() + 20
        while len(found := list(tmp_path.glob("born.*"))) < count and time.monotonic() < limit:
            time.sleep(0.05)
        return sorted(int(path.suffix[1:]) for path in found)

    (first,) = children(1)
    time.sleep(0.5)  # children start a little later than they are born
    assert (tmp_path / f"born.{first}").read_text() == "0"
    assert json.loads(ctl(first, "status", "--json"))["identity"]["pid"] == first
    assert facts(process)["identity"]["pid"] == process.pid
    ctl(process, "stop")
    (tmp_path / "second").touch()
    second = next(pid for pid in children(2) if pid != first)
    time.sleep(0.3)
    assert json.loads(ctl(second, "status", "--json"))["answer"]["running"] == 0
    ctl(second, "start")
    assert json.loads(ctl(second, "status", "--json"))["identity"]["pid"] == second
    assert json.loads(ctl(first, "status", "--json"))["answer"]["running"] == 1
    done = end(process, tmp_path)
    assert done.code == 0 and "Traceback" not in done.err


def test_forks_warn_of_no_thread_of_ours(tmp_path):
    done = run(
        tmp_path,
        """
import os, time, warnings
warnings.simplefilter("error")
import pyrometer.auto
from pyrometer import control
for round in range(3):
    if os.fork() == 0: os._exit(0)
    os.wait()
control.stop()
if os.fork() == 0: os._exit(0)
os.wait()
control.start()
print(control.status()["process"])
""",
    )
    assert (done.code, done.err, done.out) == (0, "", "{'control': 'on'}\n")


def test_a_daemon_that_closes_everything(tmp_path):
    process = start(
        tmp_path,
        PROGRAM.replace(
            'print("ready", flush=True)',
            """os.closerange(3, 4096)
kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(900)]
print("ready", flush=True)""",
        ),
    )
    for _ in range(3):
        assert facts(process)["answer"]["running"] == 1
    ctl(process, "stop")
    ctl(process, "start")
    assert end(process, tmp_path).code == 0


def test_the_program_may_end_meanwhile(tmp_path):
    """Requests at any moment of its end: it ends as ever, and in time."""
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = start(folder, PROGRAM)
        asking = [
            subprocess.Popen(
                [sys.executable, "-m", "pyrometer", "ctl", str(process.pid), word],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for word in ("set", "stop", "start", "flush", "status")
        ]
        time.sleep(0.03 * number)
        if number % 2:
            process.send_signal(signal.SIGTERM)
        done = end(process, folder)
        assert done.code == (-15 if number % 2 else 0), done.err
        assert "Traceback" not in done.err and "Fatal" not in done.err
        for one in asking:
            one.wait(timeout=30)
