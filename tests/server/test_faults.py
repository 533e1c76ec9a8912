"""What the world around a server does to it: files that cannot be written, clocks that jump."""

import os
import shutil
import subprocess
import time

import pytest
from conftest import SECOND, Server, make_profile, program, run

HOUR = 3600 * SECOND
DAY = 24 * HOUR

# ------------------------------------------------------------------------ a read-only store


def confined(*command):
    """A command without root's power over files, where the tests run as root."""
    if os.geteuid() != 0:
        return list(command)
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", *command]


@pytest.fixture
def kept(tmp_path):
    """A store with a profile in it, and no server."""
    folder = tmp_path / "store"
    server = Server(folder)
    assert server.upload(make_profile(1)).code == 200
    assert server.stop() == (0, "")
    yield folder
    for path in folder, *folder.iterdir():
        path.chmod(0o700)


def refusal(folder):
    command = confined(program(), "serve", "--listen", "127.0.0.1:0", "--data", str(folder))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    return done.stderr


def test_a_folder_that_cannot_be_written(kept):
    before = (kept / "pyrometer.db").read_bytes()
    for path in *kept.iterdir(), kept:
        path.chmod(path.stat().st_mode & ~0o222)
    assert "cannot be written: not permitted" in refusal(kept)
    assert (kept / "pyrometer.db").read_bytes() == before


def test_a_file_that_cannot_be_written(kept):
    """SQLite would open it for reading, and every upload would fail."""
    (kept / "pyrometer.db").chmod(0o400)
    assert "pyrometer.db cannot be written: it is read-only" in refusal(kept)
    (kept / "pyrometer.db").chmod(0o600)
    assert run("store", "check", "--data", kept).returncode == 0


# ----------------------------------------------------------------------------------- clocks


def test_profiles_of_wrong_clocks(server):
    """A sender's clock may be wrong; its profiles are where it says, or are refused."""
    now = time.time_ns()
    assert server.upload(make_profile(1, now + 20 * HOUR), pid=1).code == 200
    assert server.upload(make_profile(2, now - 900 * DAY), pid=2).code == 200
    assert server.upload(make_profile(3, 10), pid=3).code == 200  # 1970
    assert server.upload(make_profile(4, -5), pid=4).code == 200  # before it: no time at all
    for ahead in now + 3 * DAY, 2**63 - 1, 2**63 - 60 * SECOND:
        answer = server.upload(make_profile(5, ahead), pid=5)
        assert answer.code == 400 and b"of the future" in answer.body
    always = {"from": 0, "until": (now + DAY) // SECOND}
    lines = server.get("/api/totals", by="pid", type="wall-time", **always)["lines"]
    sums = {line["name"]: line["sum"] for line in lines}
    assert sums == {str(pid): make_profile(pid).total("wall-time") for pid in (1, 2, 3, 4)}
    assert server.get("/healthz")["status"] == "ok"


SHIFTED_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real) {
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    int result = real(clock, now);
    long shift = 0;
    FILE *file = clock == CLOCK_REALTIME ? fopen(getenv("SHIFT_FILE"), "r") : NULL;
    if (file && fscanf(file, "%ld", &shift) == 1) {
        now->tv_sec += shift;
    }
    if (file) {
        fclose(file);
    }
    return result;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_server_s_clock_jumps_between_uploads(tmp_path, monkeypatch):
    """Back by hours, ahead by a year: what came is kept, once, and profiles go on coming in."""
    library, shift = tmp_path / "shift.so", tmp_path / "shift"
    build = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), "-ldl"]
    subprocess.run(build, input=SHIFTED_CLOCK, text=True, check=True)
    shift.write_text("0")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("SHIFT_FILE", str(shift))
    server = Server(tmp_path / "store", "--keep", "30d")
    monkeypatch.undo()
    now = time.time_ns()
    jumps = [0, -10 * 3600, 365 * 86400, 5]
    for number, seconds in enumerate(jumps):
        shift.write_text(str(seconds))
        profile = make_profile(number, now - number * 60 * SECOND)
        for _ in "sent", "sent again":
            assert server.upload(profile, pid=number).code == 200
        assert server.get("/healthz")["status"] == "ok"
    answer = server.ask("POST", "/api/upload", b"not a profile", service="a")
    assert answer.code == 400
    time.sleep(1.5)  # the first upkeep is over
    hours = {"from": (now - 6 * HOUR) // SECOND, "until": (now + HOUR) // SECOND}
    lines = server.get("/api/totals", by="pid", type="wall-time", **hours)["lines"]
    expected = {str(pid): make_profile(pid).total("wall-time") for pid in range(len(jumps))}
    assert {line["name"]: line["sum"] for line in lines} == expected
    shift.write_text(str(-3 * 86400))
    answer = server.upload(make_profile(9, now), pid=9)
    assert answer.code == 400 and b"are the clocks right?" in answer.body
    assert server.stop() == (0, "")
    assert run("store", "check", "--data", tmp_path / "store").returncode == 0
