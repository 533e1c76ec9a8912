"""The flight recorder: what a process that was killed leaves, and what one that ended does not.

PYROMETER_FLIGHT_SECONDS is how long the program runs that is killed (60: as the promise says).
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agent import pprof, run, start

SECONDS = float(os.environ.get("PYROMETER_FLIGHT_SECONDS", "3"))
PROGRAM = Path(sys.executable).with_name("pyrometer")

WORK = """
import os, signal, sys, threading, time
import pyrometer.auto
from pyrometer import Profiler
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(200):
            pass
def idle():
    time.sleep(600)
"""

STEADY = (
    WORK
    + """
threading.Thread(target=idle, daemon=True).start()
def busy(): burn(0.1)
def rest(): time.sleep(0.1)
print("ready", flush=True)
while True:
    busy()
    rest()
    print(time.time(), time.process_time(), flush=True)
"""
)


def settings(folder, **more):
    return {
        "PYROMETER_FLIGHT_RECORDER_ENABLED": "true",
        "PYROMETER_FLIGHT_RECORDER_DIR": str(folder / "flight"),
        **more,
    }


def recordings(folder):
    return sorted((folder / "flight").glob("*.flight"))


def recover(*words):
    done = subprocess.run(
        [PROGRAM, "recover", *map(str, words)], capture_output=True, text=True, timeout=60
    )
    return done


def recovered(recording, *words):
    done = recover(recording, *words)
    assert done.returncode == 0, done.stderr
    path = Path(f"{recording}.pprof")
    return pprof.parse(path.read_bytes()), json.loads(Path(f"{path}.json").read_text())


def run_and_kill(folder, number, seconds=SECONDS, **more):
    """Runs the steady program, kills it; what it printed of its clocks, last line last."""
    process = start(folder, STEADY, **settings(folder, **more))
    time.sleep(seconds)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == -number and err == ""
    return [tuple(map(float, line.split())) for line in out.splitlines() if " " in line]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_killed(tmp_path, number):
    """What is recovered reaches to within two seconds of the end, and is right up to there."""
    clocks = run_and_kill(tmp_path, number)
    (recording,) = recordings(tmp_path)
    profile, document = recovered(recording)
    window = document["window"]
    died, used = clocks[-1]
    end = window["end_ns"] / 1e9
    lost = died - end
    print(f"ran {SECONDS} s, lost {lost:.3f} s")
    assert lost < 2.6 if SECONDS < 50 else lost < 0.05 * SECONDS
    # CPU that the program had used when the recording ends, and the profile's own.
    used = max(cpu for moment, cpu in clocks if moment <= end)
    total = profile.total("cpu-time") / 1e9
    assert used - 0.15 < total + 0.1 and total < used + 0.25
    busy = profile.by_function("cpu-time")["busy"][1] / 1e9
    assert busy > 0.85 * total
    wall = profile.by_function("wall-time")
    seconds = end - window["start_ns"] / 1e9
    for name in ("<module>", "idle"):
        assert 0.95 * seconds < wall[name][1] / 1e9 < 1.02 * seconds
    assert profile.duration_ns / 1e9 == pytest.approx(seconds, rel=0.02)
    assert document["identity"]["pid"] > 0 and document["collectors"]["stack"] == "on"
    assert document["recovery"]["slices"] >= 1


def test_undelivered_and_last(tmp_path):
    run_and_kill(tmp_path, signal.SIGKILL, seconds=5.4, PYROMETER_UPLOAD_INTERVAL="3s")
    (recording,) = recordings(tmp_path)
    _, all_of_it = recovered(recording)
    profile, rest = recovered(recording, "--undelivered")
    delivered = [
        json.loads(Path(f"{file}.json").read_text())["window"]["end_ns"]
        for file in (tmp_path / "out").glob("*.pprof")
    ]
    assert abs(rest["window"]["start_ns"] - max(delivered)) < 50e6
    assert rest["recovery"]["slices"] < all_of_it["recovery"]["slices"]
    done = recover("--last", "1500ms", "-o", tmp_path / "last.pprof", recording)
    assert done.returncode == 0
    last = json.loads((tmp_path / "last.pprof.json").read_text())["window"]
    assert last["end_ns"] == all_of_it["window"]["end_ns"]
    assert last["end_ns"] - last["start_ns"] <= 1.5e9


@pytest.mark.parametrize(
    "end",
    [
        "",
        "sys.exit(3)",
        "os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)",
        "raise ValueError",
    ],
)
def test_an_end_that_delivers_leaves_nothing(tmp_path, end):
    done = run(tmp_path, WORK + "burn(0.1)\ntime.sleep(1.2)\n" + end, **settings(tmp_path))
    assert done.code == {"": 0, "sys.exit(3)": 3, "raise ValueError": 1}.get(end, -15)
    assert len(done.files()) == 1 and recordings(tmp_path) == []


def test_stop_and_start(tmp_path):
    source = (
        WORK
        + """
folder = sys.argv[1]
pyrometer = Profiler()
assert len(os.listdir(folder)) == 1
from pyrometer.profiler import _process
_process.owner.stop()
assert os.listdir(folder) == []
while len(os.listdir("/proc/self/task")) > 1: time.sleep(0.01)  # ended, and still counted
again = Profiler()
again.start()
while again.status()["flight_recorder"]["slices"] < 1: time.sleep(0.1)
state = again.status()["flight_recorder"]
assert state["failures"] == 0, state
assert os.listdir(folder) == [os.path.basename(state["file"])]
assert os.stat(state["file"]).st_size == 64 + state["written_bytes"]
again.stop(flush=False)
assert os.listdir(folder) == []
"""
    )
    done = run(tmp_path, source, str(tmp_path / "flight"), **settings(tmp_path))
    assert (done.code, done.err) == (0, "")


def test_a_child_has_a_recording_of_its_own(tmp_path):
    source = (
        WORK
        + """
def child(): burn(0.2)
pid = os.fork()
if pid == 0:
    child()
    time.sleep(2.5)
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(1)
assert os.waitpid(pid, 0)[1] == signal.SIGKILL
print(pid)
"""
    )
    done = run(tmp_path, source, **settings(tmp_path), options=("-W", "ignore::DeprecationWarning"))
    assert (done.code, done.err) == (0, "")
    (recording,) = recordings(tmp_path)
    assert recording.name.startswith(done.out.strip() + ".")
    profile, document = recovered(recording)
    assert 0.15e9 < profile.by_function("cpu-time")["child"][1] < 0.25e9
    assert document["identity"]["parent_runtime_id"]


def test_a_full_disk_is_one_line(tmp_path):
    source = (
        WORK
        + """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
time.sleep(2.5)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30)) if False else None
state = Profiler().status()["flight_recorder"]
assert state["failures"] >= 1 and state["slices"] == 0, state
"""
    )
    done = run(tmp_path, source, **settings(tmp_path), PYROMETER_OUTPUT_PPROF=None)
    assert done.code == 0
    lines = [line for line in done.err.splitlines() if "flight recorder" in line]
    assert len(lines) == 1 and "cannot write" in lines[0], done.err


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "flight").write_text("a file")
    done = run(tmp_path, WORK + "burn(0.1)", **settings(tmp_path))
    assert done.code == 0 and len(done.files()) == 1
    assert done.err.count("\n") == 1 and "the flight recorder is off" in done.err


def test_old_recordings_make_room(tmp_path):
    folder = tmp_path / "flight"
    folder.mkdir(mode=0o700)
    for number in range(30):
        (folder / f"{number}.1.flight").write_bytes(b"old")
        os.utime(folder / f"{number}.1.flight", (1000 + number, 1000 + number))
    (folder / "fresh.flight").write_bytes(b"of a process that lives")
    (folder / "other").write_bytes(b"not ours")
    done = run(tmp_path, WORK + "burn(0.1)", **settings(tmp_path))
    assert (done.code, done.err) == (0, "")
    left = {path.name for path in folder.iterdir()}
    assert left == {f"{number}.1.flight" for number in range(14, 30)} | {"fresh.flight", "other"}


def test_recordings_that_are_none(tmp_path):
    for name, content in {"empty": b"", "text": b"hello" * 100, "zeros": bytes(4096)}.items():
        file = tmp_path / name
        file.write_bytes(content)
        done = recover(file)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, name
    assert recover(tmp_path / "absent").returncode == 2
    assert recover("--last", "soon", tmp_path / "text").returncode == 2


def test_a_damaged_recording_gives_what_is_whole(tmp_path):
    run_and_kill(tmp_path, signal.SIGKILL)
    (recording,) = recordings(tmp_path)
    profile, document = recovered(recording)
    whole = bytearray(recording.read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    recording.write_bytes(whole)
    _, damaged = recovered(recording)
    assert damaged["recovery"]["slices"] == document["recovery"]["slices"] - 1
    assert damaged["recovery"]["broken_slices"] == 1
    recording.write_bytes(whole[:64])
    assert recover(recording).returncode == 2
