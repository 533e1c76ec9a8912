"""Start, stop, flush and status of the profiler in a process, and its settings."""

import json
import statistics
import sys
from pathlib import Path

import pytest
from agent import run

BURN = """
import time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))
"""


def test_auto_start_delivers_at_exit(tmp_path):
    done = run(tmp_path, BURN + "import pyrometer.auto\nburn(0.5)")
    assert (done.code, done.out, done.err) == (0, "", "")
    (profile,) = done.profiles()
    assert [name for name, _ in profile.types][:4] == [
        "cpu-time",
        "cpu-samples",
        "wall-time",
        "wall-samples",
    ]
    assert profile.default_type == "cpu-time"
    assert 0.45e9 < profile.by_function("cpu-time")["burn"][1] < 0.55e9
    (document,) = done.folder.glob("*.json")
    assert json.loads(document.read_text())["identity"]["pid"] > 0


def test_start_flush_status_stop(tmp_path):
    done = run(
        tmp_path,
        BURN
        + """
from pyrometer import Profiler
profiler = Profiler(service="shop", sampling_interval="5ms", tags={"team": "web"})
assert profiler.status()["running"] is False
assert profiler.flush() is False
profiler.stop()
profiler.start()
burn(0.3)
assert profiler.flush() is True
burn(0.3)
status = profiler.status()
profiler.stop()
assert profiler.status()["running"] is False
profiler.stop()
profiler.start()
burn(0.2)
profiler.stop(flush=False)
import json
print(json.dumps(status))
""",
        PYROMETER_ENV="test",
    )
    assert (done.code, done.err) == (0, "")
    assert len(done.files()) == 2
    status = json.loads(done.out)
    assert status["identity"]["service"] == "shop"
    assert status["identity"]["env"] == "test"
    assert status["identity"]["tags"] == "team:web"
    assert status["collectors"]["stack"] == "on"
    assert status["settings"]["SAMPLING_INTERVAL"] == "5ms"
    assert status["settings from"]["SAMPLING_INTERVAL"] == "argument"
    assert status["settings from"]["ENV"] == "PYROMETER_ENV"
    assert status["delivery"]["windows"] == 1
    assert status["tick"]["interval_set_ns"] == 5_000_000
    assert status["cost"]["sampler_cpu_ns"] > 0
    assert status["start_line"].startswith("pyrometer ")


def test_second_start_is_one_error_line(tmp_path):
    done = run(
        tmp_path,
        """
        import logging
        logging.basicConfig(format="%(name)s %(levelname)s %(message)s", level="INFO")
        from pyrometer import Profiler
        first, second = Profiler(), Profiler()
        first.start()
        second.start()
        second.stop()
        assert first.status()["running"] and second.status()["running"]
        """,
    )
    assert done.code == 0
    start, second = done.err.splitlines()
    assert start.startswith("pyrometer INFO pyrometer ")
    assert "stack" in start and "PYROMETER_ENABLED=false" in start and str(done.folder) in start
    assert second.startswith("pyrometer ERROR ") and "already" in second


def test_with_is_one_clear_error(tmp_path):
    done = run(tmp_path, "from pyrometer import Profiler\nwith Profiler(): pass")
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("TypeError: Profiler is for the whole process")


def test_start_line_waits_for_logging(tmp_path):
    done = run(
        tmp_path,
        """
        import pyrometer.auto, sys
        assert "logging" not in sys.modules
        import logging
        logging.basicConfig(format="%(levelname)s %(message)s", level="INFO")
        """,
    )
    assert done.code == 0
    assert done.err.startswith("INFO pyrometer ") and len(done.err.splitlines()) == 1


def test_few_lines_wait_for_logging(tmp_path):
    done = run(
        tmp_path,
        """
        import sys
        import pyrometer
        profiler = pyrometer.Profiler()
        for _ in range(100):
            profiler.start()
            profiler.stop(flush=False)
        assert "logging" not in sys.modules
        import logging
        logging.basicConfig(format="%(levelname)s %(message)s", level="INFO")
        profiler.start()
        """,
    )
    assert done.code == 0
    assert 1 <= len(done.err.splitlines()) <= 65  # with the last start's


DISABLED = """
import os, sys, threading
threads, modules = os.listdir("/proc/self/task"), set(sys.modules)
import pyrometer.auto
assert os.listdir("/proc/self/task") == threads
loaded = set(sys.modules) - modules
assert not [name for name in loaded if not name.startswith("pyrometer")], loaded
assert "pyrometer._native" not in sys.modules and "logging" not in sys.modules
import signal
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
"""


@pytest.mark.parametrize("name", ["PYROMETER_ENABLED", "DD_PROFILING_ENABLED"])
@pytest.mark.parametrize("value", ["false", "0", "No", "OFF"])
def test_br_165_disabled_is_nothing(tmp_path, name, value):
    done = run(tmp_path, DISABLED, **{name: value})
    assert (done.code, done.out, done.err) == (0, "", "")
    assert not done.folder.exists()


def test_br_165_disabled_by_hand_is_no_line(tmp_path):
    source = """
        import os
        from pyrometer import Profiler
        profiler = Profiler()
        profiler.start()
        assert profiler.status()["running"] is False
        assert len(os.listdir("/proc/self/task")) == 1
        """
    done = run(tmp_path, source, PYROMETER_ENABLED="false")
    assert (done.code, done.err) == (0, "")


def test_import_starts_nothing(tmp_path):
    done = run(
        tmp_path,
        """
        import os, pyrometer
        assert pyrometer.__version__ and pyrometer.Profiler
        assert len(os.listdir("/proc/self/task")) == 1
        """,
    )
    assert (done.code, done.err) == (0, "")
    assert not done.folder.exists()


def test_package_versions_agree(tmp_path):
    source = "import pyrometer, pyrometer._native as n; print(pyrometer.__version__, n.version)"
    ours, native = run(tmp_path, source).out.split()
    assert ours == native


def test_wrong_settings_are_one_warning_each(tmp_path):
    done = run(
        tmp_path,
        BURN + "from pyrometer import Profiler\nProfiler(max_frame=3).start()\nburn(0.2)",
        PYROMETER_SAMPLING_INTERVAL="often",
        PYROMETER_MAX_FRAMES="100000",
        PYROMETER_OVERHEAD_PTC="2",
    )
    assert done.code == 0
    lines = done.err.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith('PYROMETER_SAMPLING_INTERVAL: "often" is ignored')
    assert "from 1 to 599" in lines[1]
    assert "did you mean PYROMETER_OVERHEAD_PCT?" in lines[2]
    assert "did you mean MAX_FRAMES?" in lines[3]
    assert done.samples()


def test_every_collector_off_is_one_line(tmp_path):
    source = "import pyrometer.auto, os\nassert len(os.listdir('/proc/self/task')) == 1"
    names = ("STACK", "MEMORY", "LOCK", "EXCEPTION", "GC")
    off = {f"PYROMETER_{name}_ENABLED": "0" for name in names}
    done = run(tmp_path, source, **off)
    assert done.code == 0
    assert done.err == "pyrometer is off: every collector is switched off by a setting\n"


def test_core_that_does_not_load_is_one_line(tmp_path):
    done = run(
        tmp_path, "import sys\nsys.modules['pyrometer._native'] = None\nimport pyrometer.auto"
    )
    assert done.code == 0
    assert len(done.err.splitlines()) == 1 and "core does not load" in done.err


def test_only_the_main_interpreter_starts_it(tmp_path):
    done = run(
        tmp_path,
        """
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        made = interpreters.create()
        text = "try:\\n import pyrometer.auto\\nexcept ImportError: pass"
        (getattr(interpreters, "exec", None) or interpreters.run_string)(made, text)
        import os
        assert len(os.listdir("/proc/self/task")) == 1
        interpreters.destroy(made)
        """,
        options=("-W", "ignore"),
    )
    assert done.code == 0
    assert len(done.err.splitlines()) == 1 and "pyrometer is off" in done.err


def test_lines_of_native_threads_reach_the_logger(tmp_path):
    """A target that fails long after the start: the main thread logs it without being asked."""
    done = run(
        tmp_path,
        BURN
        + """
import logging, shutil, sys
logging.basicConfig(format="%(name)s %(levelname)s %(message)s")
from pyrometer import Profiler
Profiler(upload_interval="1s", output_pprof="/proc/nowhere/app").start()
burn(2.5)
print(len([h for h in logging.getLogger().handlers]))
""",
    )
    assert done.code == 0
    lines = [line for line in done.err.splitlines() if "pyrometer WARNING" in line]
    assert len(lines) == len(done.err.splitlines()) and 1 <= len(lines) <= 2
    assert "/proc/nowhere" in lines[0]


RUN = (sys.executable, "-m", "pyrometer", "run")


def test_run_profiles_a_command(tmp_path):
    source = (
        BURN
        + """
burn(0.5)
import os, sys
print(os.environ.get("PYTHONPATH"), "pyrometer.auto" in sys.modules)
"""
    )
    done = run(tmp_path, source, wrapper=(*RUN, "--"))
    assert (done.code, done.err) == (0, "")
    assert done.out == "None True\n"
    assert done.profiles()[0].by_function("cpu-time")["burn"][1] > 0.4e9


CHILD = (
    BURN
    + """
import subprocess, sys
if len(sys.argv) == 1:
    child = subprocess.Popen([sys.executable, __file__, "child"])
    assert child.wait() == 0
    print(child.pid)
burn(0.4)
"""
)


@pytest.mark.parametrize("wanted", [False, True])
def test_run_profiles_children_if_asked(tmp_path, wanted):
    wrapper = (*RUN, "--subprocesses", "--") if wanted else (*RUN, "--")
    done = run(tmp_path, CHILD, wrapper=wrapper)
    assert (done.code, done.err) == (0, "")
    assert bool(done.files(done.out.strip())) is wanted


def test_run_keeps_the_programs_own_sitecustomize(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import sys\nsys.marker = __file__\n")
    source = """
        import sys, sitecustomize, os
        print(sys.marker, sitecustomize.__file__, os.environ["PYTHONPATH"])
        assert not [folder for folder in sys.path if "_bootstrap" in folder]
        assert "pyrometer.auto" in sys.modules
        """
    own = str(tmp_path / "own")
    done = run(tmp_path, source, wrapper=(*RUN, "--"), PYTHONPATH=own)
    assert (done.code, done.err) == (0, "")
    assert done.out.split() == [f"{own}/sitecustomize.py"] * 2 + [own]


def test_start_costs_little(tmp_path):
    """Import to running within 10 ms. In CPU time, which other programs on the machine do not
    stretch; nothing in a start waits."""
    source = """
import time
start = time.process_time()
import pyrometer.auto
print(time.process_time() - start)
"""
    times = [float(run(tmp_path, source).out) for _ in range(9)]
    assert statistics.median(times) < 0.010, times


def test_missed_ticks_stand_in_the_window_that_missed_them(tmp_path):
    """Half a second in which nothing of the process runs, in its only window."""
    source = """
    import os, signal, subprocess, time
    import pyrometer.auto
    time.sleep(0.1)
    waker = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)
    waker.wait()
    time.sleep(0.1)
    """
    done = run(tmp_path, source)
    assert (done.code, done.err) == (0, "")
    (file,) = done.files()
    document = json.loads(Path(f"{file}.json").read_text())
    assert 20 < document["losses"]["missed-ticks"] <= document["tick"]["missed"]
    assert any("(missed-ticks)" in comment for comment in done.profiles()[0].comments)
