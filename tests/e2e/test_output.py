"""Where profiles go when the place is not what it should be."""

import os
import subprocess

import pytest
from agent import run

WORK = """
import time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))
import pyrometer.auto
burn(0.3)
"""


def test_default_is_a_folder_below_the_working_folder(tmp_path):
    source = "import os\n" + WORK + "os.chdir('/')\n"
    done = run(tmp_path, source, PYROMETER_OUTPUT_PPROF=None)
    assert (done.code, done.err) == (0, "")
    assert len(list((tmp_path / "pyrometer-profiles").glob("*.pprof"))) == 1


def test_unwritable_default_falls_back_to_the_temporary_folder(tmp_path):
    (tmp_path / "pyrometer-profiles").write_text("in the way")
    (tmp_path / "temporary").mkdir()
    done = run(tmp_path, WORK, PYROMETER_OUTPUT_PPROF=None, TMPDIR=str(tmp_path / "temporary"))
    assert done.code == 0
    assert len(list((tmp_path / "temporary").rglob("*.pprof"))) == 1


def test_unwritable_folder_is_one_line(tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = run(tmp_path, WORK, PYROMETER_OUTPUT_PPROF=str(tmp_path / "file" / "app"))
    assert done.code == 0
    assert len(done.err.splitlines()) == 1
    assert str(tmp_path / "file") in done.err and "PYROMETER_OUTPUT_PPROF" in done.err


def test_folder_that_comes_late_gets_the_windows_kept(tmp_path):
    """What could not be written at first is written when the place is there."""
    source = (
        WORK
        + """
from pyrometer import Profiler
import os
Profiler().flush()
os.remove("place")
def later(): burn(0.3)
later()
Profiler().flush()
print(len([name for name in os.listdir("place") if name.endswith(".pprof")]))
"""
    )
    (tmp_path / "place").write_text("in the way")
    done = run(tmp_path, source, PYROMETER_OUTPUT_PPROF=str(tmp_path / "place" / "app"))
    assert (done.code, done.out) == (0, "2\n")
    assert len(done.err.splitlines()) == 2  # it fails, it works again


@pytest.fixture
def full_disk(tmp_path):
    """A file system of its own with hardly any room."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting is not permitted here")
    (disk / "full").write_bytes(b"x" * 8192)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_full_disk_is_one_line(tmp_path, full_disk):
    done = run(tmp_path, WORK, PYROMETER_OUTPUT_PPROF=str(full_disk / "app"))
    assert done.code == 0
    assert len(done.err.splitlines()) == 1 and "no space" in done.err
    assert os.listdir(full_disk) == ["full"]


def test_limit_of_file_sizes_sends_no_signal(tmp_path):
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))"
    done = run(tmp_path, limit + WORK)
    assert done.code == 0
    assert len(done.err.splitlines()) == 1
    assert not done.files()


def test_never_over_older_files(tmp_path):
    """A restarted container has the same process id again: so has a program started by exec."""
    again = """
import os, sys
if len(sys.argv) < 4:
    from pyrometer import Profiler
    Profiler().flush()
    os.execv(sys.executable, [sys.executable, __file__, *sys.argv[1:], "again"])
"""
    done = run(tmp_path, WORK + again)
    assert (done.code, done.err) == (0, "")
    files = done.files()
    assert len(files) == 4 and len({file.name.split(".")[1] for file in files}) == 1
    assert all(profile.samples for profile in done.profiles())
