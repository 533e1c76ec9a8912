"""Where settings come from, what switches the profiler off, and which processes are profiled."""

import json
import os
import signal
import sys
import textwrap
import time
from itertools import product

import pytest
from agent import run, start

RUN = (sys.executable, "-m", "pyrometer", "run", "--")
REPORT = """
import json, os, sys, time
def report():
    tasks = "/proc/self/task"
    for _ in range(500):  # a thread gives itself its name
        names = [open(f"{tasks}/{task}/comm").read().strip() for task in os.listdir(tasks)]
        if len(names) == 1 or "pyr-export" in names: break
        time.sleep(0.01)
    print(json.dumps({
        "runs": "pyr-export" in names,
        "threads": len(names),
        "core": "pyrometer._native" in sys.modules,
    }))
"""
WAYS = {
    "import": "import pyrometer.auto",
    "start": "from pyrometer import Profiler\nProfiler().start()",
    "start true": "from pyrometer import Profiler\nProfiler(enabled=True).start()",
    "start false": "from pyrometer import Profiler\nProfiler(enabled=False).start()",
    "neither": "import pyrometer",
    "run": "pass",
}


@pytest.mark.parametrize(
    "way, name, value, in_file",
    [
        *product(WAYS, ["PYROMETER_ENABLED"], [None, "true", "false"], [None]),
        *product(["import", "start", "run"], ["DD_PROFILING_ENABLED"], ["1", "0"], [None]),
        *product(["import", "start true", "run"], ["PYROMETER_ENABLED"], ["true"], [True, False]),
    ],
)
def test_false_always_wins(tmp_path, way, name, value, in_file):
    """ENABLED: unset, true, false; import, run, start and neither. Off is nothing at all: no core,
    no thread, no line, no file."""
    settings = {} if value is None else {name: value}
    if in_file is not None:
        (tmp_path / "settings.toml").write_text(f"enabled = {str(in_file).lower()}\n")
        settings["PYROMETER_CONFIG_FILE"] = str(tmp_path / "settings.toml")
    is_off = value in ("false", "0") or in_file is False or way == "start false"
    expected = not is_off and way != "neither"
    wrapper = RUN if way == "run" else ()
    done = run(tmp_path, REPORT + WAYS[way] + "\nreport()", wrapper=wrapper, **settings)
    assert (done.code, done.err) == (0, "")
    shown = json.loads(done.out)
    assert shown["runs"] is expected
    if not expected:
        assert shown == {"runs": False, "threads": 1, "core": False}
        assert not done.folder.exists()


def test_one_variable_switches_off_what_another_switches_on(tmp_path):
    """ddtrace's profiler off and ours on is a wish that can be said."""
    both = {"PYROMETER_ENABLED": "true", "DD_PROFILING_ENABLED": "false"}
    done = run(tmp_path, REPORT + "import pyrometer.auto\nreport()", **both)
    assert json.loads(done.out)["runs"] is True
    both = {"PYROMETER_ENABLED": "false", "DD_PROFILING_ENABLED": "true"}
    done = run(tmp_path, REPORT + "import pyrometer.auto\nreport()", **both)
    assert json.loads(done.out)["runs"] is False


SHOW = """
import json
from pyrometer import Profiler
profiler = Profiler({arguments})
profiler.start()
print(json.dumps(profiler.status()))
"""


def test_order_of_sources(tmp_path):
    """Keyword, PYROMETER, DD, OTEL, file."""
    (tmp_path / "settings.toml").write_text(
        'service = "file"\nenv = "file"\nversion = "file"\nsampling_interval = "7ms"\n'
        'max_frames = 33\n[tags]\nteam = "file"\n'
    )
    done = run(
        tmp_path,
        SHOW.format(arguments='service="argument", tags={"region": "eu"}'),
        PYROMETER_CONFIG_FILE="settings.toml",
        PYROMETER_SERVICE="ours",
        PYROMETER_ENV="ours",
        DD_ENV="dd",
        DD_VERSION="dd",
        OTEL_RESOURCE_ATTRIBUTES="service.version=otel",
        DD_PROFILING_MAX_FRAMES="44",
        DD_TAGS="team:dd zone:b",
    )
    assert (done.code, done.err) == (0, "")
    status = json.loads(done.out)
    assert status["settings"]["SERVICE"] == "argument"
    sources = status["settings from"]
    sources.pop("TLS_CA_FILE", None), sources.pop("HTTPS_PROXY", None)  # of the machine
    assert sources == {
        "SERVICE": "argument",
        "ENV": "PYROMETER_ENV",
        "VERSION": "DD_VERSION",
        "SAMPLING_INTERVAL": "config file",
        "MAX_FRAMES": "DD_PROFILING_MAX_FRAMES",
        "CONFIG_FILE": "PYROMETER_CONFIG_FILE",
        "OUTPUT_PPROF": "PYROMETER_OUTPUT_PPROF",
        "TAGS": "argument",
    }
    assert status["settings"]["TAGS"] == "region:eu,team:dd,zone:b,service.version:otel"
    assert status["tick"]["interval_set_ns"] == 7_000_000


def test_a_file_by_keyword(tmp_path):
    file = tmp_path / "other.toml"
    file.write_text('service = "file"\n')
    done = run(tmp_path, SHOW.format(arguments=f"config_file={str(file)!r}"))
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["settings"]["SERVICE"] == "file"


def test_a_wrong_file_is_one_line(tmp_path):
    done = run(tmp_path, SHOW.format(arguments=""), PYROMETER_CONFIG_FILE="nowhere.toml")
    assert done.code == 0 and json.loads(done.out)["running"] is True
    assert done.err == (
        "CONFIG_FILE: nowhere.toml is ignored, it cannot be read: No such file or directory\n"
    )


def test_a_pipe_for_a_file_is_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    done = run(tmp_path, SHOW.format(arguments=""), PYROMETER_CONFIG_FILE=str(pipe))
    assert done.code == 0 and json.loads(done.out)["running"] is True
    assert done.err == f"CONFIG_FILE: {pipe} is ignored, it is not a regular file\n"


def test_values_without_a_text_are_one_line_each(tmp_path):
    (tmp_path / "wide.toml").write_text(f"max_frames = 0x{'f' * 4000}\n")
    source = """
    class Silent:
        def __str__(self): raise RuntimeError
    """
    arguments = "upload_interval=Silent()"
    done = run(
        tmp_path,
        textwrap.dedent(source) + SHOW.format(arguments=arguments),
        PYROMETER_CONFIG_FILE="wide.toml",
    )
    assert done.code == 0 and json.loads(done.out)["running"] is True
    lines = done.err.splitlines()
    assert [line.split(" is ignored")[0] for line in lines] == [
        'config file: "<int>"',
        'argument: "<Silent>"',
    ]


def test_what_is_not_there_is_said_when_asked_for(tmp_path):
    done = run(
        tmp_path,
        SHOW.format(arguments=""),
        DD_PROFILING_PYTORCH_ENABLED="true",
        DD_PROFILING_ENABLE_ASSERTS="1",
        DD_PROFILING_LOCK_ENABLED="false",
    )
    assert done.code == 0
    lines = done.err.splitlines()
    assert lines[0].startswith("DD_PROFILING_ENABLE_ASSERTS has no effect: ")
    assert all("has no effect: " in line for line in lines) and len(lines) <= 2


SECRET = "hunter2"


def test_secrets_are_nowhere(tmp_path):
    """Not in status(), the log, the window's document or the profile."""
    source = (
        "import logging; logging.basicConfig(level='DEBUG')\n"
        + SHOW.format(arguments=f"http_headers='authorization:{SECRET}'")
        + "import time\nend = time.monotonic() + 0.3\nwhile time.monotonic() < end: pass\n"
    )
    done = run(
        tmp_path,
        source,
        DD_API_KEY=SECRET,
        HTTPS_PROXY=f"http://me:{SECRET}@127.0.0.1:9",
        PYROMETER_GIT_REPOSITORY_URL=f"https://{SECRET}@host/x",
        PYROMETER_AGENTLESS="false",
    )
    assert done.code == 0
    assert SECRET not in done.out + done.err
    assert json.loads(done.out)["settings"]["API_KEY"] == "***"
    files = [file for file in done.folder.iterdir()]
    assert len(files) == 2
    assert all(SECRET.encode() not in file.read_bytes() for file in files)
    assert all(
        SECRET not in text
        for profile in done.profiles()
        for text in [*profile.comments, *(str(sample.labels) for sample in profile.samples)]
    )


# ------------------------------------------------------------------------------ PROCESS_PCT

SHARE = """
import json, logging, os, sys
logging.basicConfig(format="%(levelname)s %(message)s", level="INFO")
from pyrometer import Profiler
profiler = Profiler()
profiler.start()
children = []
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        status = Profiler().status()
        os._exit(10 if status["running"] else 20 if "left_out" in status["process"] else 30)
    children.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps([profiler.status(), children, len(os.listdir("/proc/self/task"))]))
"""


@pytest.mark.parametrize("name", ["PYROMETER_PROCESS_PCT", "DD_PROFILING_CAPTURE_PCT"])
def test_a_process_left_out_says_so(tmp_path, name):
    done = run(tmp_path, SHARE, "0", **{name: "0"})
    assert done.code == 0
    status, _, threads = json.loads(done.out)
    assert status["running"] is False and threads == 1
    assert "share of 0 %" in status["process"]["left_out"]
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("INFO pyrometer is off: this process is not in the share of 0 %")
    assert not done.folder.exists()


def test_all_processes_is_the_default(tmp_path):
    done = run(tmp_path, SHARE, "2", PYROMETER_PROCESS_PCT="100")
    status, children, _ = json.loads(done.out)
    assert status["running"] is True and "left_out" not in status.get("process", {})
    assert children == [10, 10]


def test_each_child_draws_its_own_lot(tmp_path):
    """Whatever became of the parent: else a server whose master is left out has no worker that is
    profiled, and the other way round."""
    seen = set()
    for _ in range(30):  # ends at about the third
        done = run(tmp_path, SHARE, "8", PYROMETER_PROCESS_PCT="50")
        assert done.code == 0
        status, children, _ = json.loads(done.out)
        assert set(children) <= {10, 20}
        seen |= {(status["running"], child == 10) for child in children}
        if len(seen) == 4:
            break
    assert len(seen) == 4


def test_a_start_again_has_the_same_answer(tmp_path):
    source = """
        from pyrometer import Profiler
        answers = []
        for _ in range(5):
            profiler = Profiler(process_pct=50)
            profiler.start()
            answers.append(profiler.status()["running"])
            profiler.stop(flush=False)
        assert len(set(answers)) == 1, answers
        """
    assert run(tmp_path, source).code == 0


# ------------------------------------------------------------------------------- serverless


def test_a_function_waits_for_its_ticks(tmp_path):
    """A process that is frozen before its first tick: the freeze is no time in which it ran."""
    source = """
        from pyrometer import Profiler
        Profiler(upload_interval="2s").start()
        print("ready", flush=True)
        while True:
            sum(range(1000))
        """
    process = start(tmp_path, source, AWS_LAMBDA_FUNCTION_NAME="resize")
    out = tmp_path / "out"
    try:
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(3)  # longer than the window
        os.kill(process.pid, signal.SIGCONT)
        thawed = time.monotonic()
        while not list(out.glob("*.pprof")) and time.monotonic() < thawed + 30:
            time.sleep(0.02)
        waited = time.monotonic() - thawed
    finally:
        process.kill()
        process.communicate()
    assert list(out.glob("*.pprof"))
    assert waited > 0.9, "by the clock the window was over at the thaw"
