"""Beside ddtrace and pyroscope-io, and in their place: both installed, and ddtrace tracing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from agent import environment
from test_peers import peers, read, test_agent, uploads  # noqa: F401

pytestmark = pytest.mark.timeout(900)  # the first installation

BURN = """
import sys, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))
"""
DATADOG = (
    BURN
    + """
import ddtrace.profiling.auto
from ddtrace import tracer
from ddtrace.profiling import Profiler
with tracer.trace("request", service="web", resource="GET /cart"):
    burn(0.4)
tracer.flush()
print(Profiler.__module__, "ddtrace.internal.datadog.profiling.ddup" in sys.modules)
"""
)


@pytest.fixture
def start(peers, tmp_path):  # noqa: F811
    """Runs a program in our environment, where the peers' packages can be imported too."""
    version = f"python3.{sys.version_info.minor}"
    packages = peers.parent / "lib" / version / "site-packages"

    def run(source, *before, **settings):
        program = tmp_path / "program.py"
        program.write_text(source)
        clean = environment(
            tmp_path,
            PYTHONPATH=str(packages),
            PYROMETER_OUTPUT_PPROF=str(tmp_path / "ours" / "app"),
            DD_INSTRUMENTATION_TELEMETRY_ENABLED="false",
            DD_REMOTE_CONFIGURATION_ENABLED="false",
            **settings,
        )
        done = subprocess.run(
            [sys.executable, *before, program],
            cwd=tmp_path,
            env=clean,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        files = sorted((tmp_path / "ours").glob("*.pprof"))
        return done, files

    return run


def functions(files):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
    import pprof

    sums = {}
    for file in files:
        for sample in pprof.parse(file.read_bytes()).samples:
            for name in {name for name, _, _ in sample.stack}:
                key = name, sample.labels.get("route")
                sums[key] = sums.get(key, 0) + sample.values["cpu-time"]
    return sums


def spans(url):
    return [span["name"] for trace in json.loads(read(f"{url}/test/traces")) for span in trace]


def test_in_the_place_of_ddtrace(start, test_agent):  # noqa: F811
    done, files = start(DATADOG, DD_TRACE_AGENT_URL=test_agent, PYROMETER_TAKEOVER="ddtrace")
    assert done.stdout == "pyrometer._takeover False\n"
    assert functions(files)["burn", None] > 0.2e9
    assert "request" in spans(test_agent)
    assert {upload.headers["dd-evp-origin"] for upload in uploads(test_agent)} <= {"pyrometer"}


def test_br_131_spans_without_type_or_resource(start, test_agent):  # noqa: F811
    """They neither fail, nor is what follows them charged to them."""
    source = (
        BURN
        + """
import ddtrace.profiling.auto
from ddtrace import tracer
def after(): burn(0.3)
with tracer.trace("first", resource=None, span_type=None): burn(0.2)
after()
span = tracer.start_span("second", resource=None, span_type=None, activate=True)
span.resource = span.span_type = None
burn(0.2)
span.finish()
after()
tracer.flush()
"""
    )
    done, files = start(source, DD_TRACE_AGENT_URL=test_agent, PYROMETER_TAKEOVER="ddtrace")
    assert "Traceback" not in done.stderr
    assert functions(files)["after", None] > 0.5e9
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
    import pprof

    for file in files:
        for sample in pprof.parse(file.read_bytes()).samples:
            if "after" in {name for name, _, _ in sample.stack}:
                assert not {key for key in sample.labels if "span" in key or "trace" in key}


def test_unset_it_gives_ddtrace_back(start, test_agent):  # noqa: F811
    done, files = start(DATADOG, DD_TRACE_AGENT_URL=test_agent)
    assert done.stdout == "ddtrace.profiling.profiler True\n"
    assert not files
    assert "request" in spans(test_agent)
    assert {upload.headers["dd-evp-origin"] for upload in uploads(test_agent)} == {"dd-trace-py"}


def test_switched_off_it_gives_ddtrace_back(start, test_agent):  # noqa: F811
    done, files = start(
        DATADOG,
        DD_TRACE_AGENT_URL=test_agent,
        PYROMETER_TAKEOVER="ddtrace",
        PYROMETER_ENABLED="false",
    )
    assert done.stdout == "ddtrace.profiling.profiler True\n"
    assert not files


def test_beside_an_active_one_ours_does_not_start(start, test_agent):  # noqa: F811
    source = DATADOG.replace(
        "from ddtrace import tracer",
        """import pyrometer.auto
from pyrometer import Profiler as Ours
Ours().start()
print(Ours().status()["running"])
from ddtrace import tracer""",
        1,
    )
    done, files = start(source, DD_TRACE_AGENT_URL=test_agent)
    assert done.stdout == "False\nddtrace.profiling.profiler True\n"
    assert not files
    lines = [line for line in done.stderr.splitlines() if "pyrometer" in line]
    assert len(lines) == 2 and len(set(lines)) == 1, done.stderr  # one a start
    assert "ddtrace's profiler runs" in lines[0] and "PYROMETER_TAKEOVER=ddtrace" in lines[0]


def test_by_hand(start, test_agent):  # noqa: F811
    source = (
        BURN
        + """
from ddtrace.profiling import Profiler
profiler = Profiler(service="web", env="prod", version="1", tags={"team": "core"}, tracer=None)
profiler.start()
import pyrometer
status = pyrometer.Profiler().status()
print(status["running"], status["identity"]["service"], status["identity"]["tags"])
burn(0.2)
profiler.stop()
print(pyrometer.Profiler().status()["running"])
"""
    )
    done, files = start(source, DD_TRACE_AGENT_URL=test_agent, PYROMETER_TAKEOVER="ddtrace")
    assert done.stdout == "True web team:core\nFalse\n"
    assert functions(files)["burn", None] > 0.1e9


def test_run_takes_over_from_dd_profiling_enabled(start, test_agent):  # noqa: F811
    """ddtrace-run would start ddtrace's; `pyrometer run` starts ours alone."""
    source = DATADOG.replace("import ddtrace.profiling.auto\n", "")
    done, files = start(
        source,
        "-m",
        "ddtrace.commands.ddtrace_run",
        sys.executable,
        "-m",
        "pyrometer",
        "run",
        sys.executable,
        DD_TRACE_AGENT_URL=test_agent,
        DD_PROFILING_ENABLED="true",
    )
    # ddtrace loads its uploader early where it is to profile; nothing uses it.
    assert done.stdout.startswith("pyrometer._takeover ")
    assert {upload.headers["dd-evp-origin"] for upload in uploads(test_agent)} <= {"pyrometer"}
    assert functions(files)["burn", None] > 0.2e9
    assert "request" in spans(test_agent)


PYROSCOPE = (
    BURN
    + """
import pyroscope
pyroscope.configure(application_name="shop", server_address="http://127.0.0.1:1", tags={"a": "b"})
with pyroscope.tag_wrapper({"route": "/cart"}):
    burn(0.3)
print(pyroscope.configure.__module__)
pyroscope.shutdown()
"""
)


def test_in_the_place_of_pyroscope(start):
    done, files = start(PYROSCOPE, PYROMETER_TAKEOVER="ddtrace,pyroscope")
    assert done.stdout == "pyrometer._takeover\n"
    assert functions(files)["burn", "/cart"] > 0.15e9
    document = json.loads(files[0].with_name(files[0].name + ".json").read_text())
    assert document["identity"]["service"] == "shop" and document["identity"]["tags"] == "a:b"


def test_a_reload_does_not_give_pyroscope_back(start):
    source = (
        BURN
        + """
import importlib, sys
import pyroscope
pyroscope.configure(application_name="shop", server_address="http://127.0.0.1:1")
import pyrometer
for again in range(2):
    assert importlib.reload(pyroscope) is pyroscope
    print(pyroscope.configure.__module__, type(pyroscope.__spec__.loader).__name__)
burn(0.2)
print(pyrometer.Profiler().status()["running"])
pyroscope.shutdown()
print(pyrometer.Profiler().status()["running"])
del sys.modules["pyroscope"]
import pyroscope as anew
print(anew is pyroscope, anew.configure.__module__)
"""
    )
    done, files = start(source, PYROMETER_TAKEOVER="pyroscope")
    taken = "pyrometer._takeover SourceFileLoader\n"
    assert done.stdout == taken * 2 + "True\nFalse\nFalse pyrometer._takeover\n"
    assert functions(files)["burn", None] > 0.1e9


def test_unset_it_gives_pyroscope_back(start):
    done, files = start(PYROSCOPE)
    assert done.stdout == "pyroscope\n"
    assert not files
