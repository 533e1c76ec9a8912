"""Against Datadog's own: their test agent takes ours, and their library's upload is its twin."""

import base64
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from agent import environment, run
from stub import Upload, free_port

ROOT = Path(__file__).resolve().parents[2]

WORK = """
import threading, time

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))

worker = threading.Thread(target=burn, args=(0.6,), name="the worker")
worker.start()
burn(0.6)
time.sleep(0.3)
worker.join()
"""


@pytest.fixture(scope="module")
def peers():
    """The environment with ddtrace and ddapm-test-agent; its first making takes a minute."""
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    command = [str(ROOT / "tools" / "setup_peers.sh"), str(base)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"Datadog's packages cannot be installed here: {done.stderr[-300:]}")
    return Path(done.stdout.splitlines()[-1]) / "bin"


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read()


@pytest.fixture
def test_agent(peers, tmp_path):
    port = free_port()
    process = subprocess.Popen(
        [peers / "ddapm-test-agent", "--host", "127.0.0.1", "--port", str(port),
         "--otlp-http-port", str(free_port()), "--otlp-grpc-port", str(free_port())],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=environment(tmp_path, DISABLE_LLMOBS_DATA_FORWARDING="true"),
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            read(f"{url}/info")
            break
        except (urllib.error.URLError, OSError):
            assert process.poll() is None
            time.sleep(0.1)
    yield url
    process.terminate()
    process.wait(timeout=20)


def uploads(url: str) -> list[Upload]:
    """What the test agent stored, oldest first."""
    rows = json.loads(read(f"{url}/test/session/requests"))
    return [
        Upload(
            row["method"],
            row["url"],
            {name.lower(): value for name, value in row["headers"].items()},
            base64.b64decode(row["body"]),
        )
        for row in reversed(rows)
        if row["url"].endswith("/profiling/v1/input")
    ]


def shape(value: object) -> str:
    return type(value).__name__


@pytest.mark.timeout(900)  # the first installation
def test_the_same_program_under_both(tmp_path, peers, test_agent):
    """Every difference is one of the table in docs/sending.md."""
    settings = {
        "DD_SERVICE": "web", "DD_ENV": "prod", "DD_VERSION": "1.2", "DD_TAGS": "team:core",
        "DD_TRACE_AGENT_URL": test_agent,
    }  # fmt: skip
    source = "import pyrometer.auto\n" + WORK
    done = run(
        tmp_path, source, preamble="", PYROMETER_UPLOAD_INTERVAL="1m",
        PYROMETER_HTTP_HEADERS="X-Asked-For:yes", **settings,
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    program = tmp_path / "program.py"
    program.write_text(WORK)
    subprocess.run(
        [peers / "ddtrace-run", peers / "python", program],
        cwd=tmp_path, check=True, capture_output=True, timeout=120,
        env=environment(
            tmp_path, DD_PROFILING_ENABLED="true", DD_TRACE_ENABLED="false",
            DD_INSTRUMENTATION_TELEMETRY_ENABLED="false", **settings,
        ),
    )  # fmt: skip
    by_origin = {upload.headers["dd-evp-origin"]: upload for upload in uploads(test_agent)}
    compare(by_origin["pyrometer"], by_origin["dd-trace-py"])


# Labels that the other does not have, and those of samples that it may not happen to have.
OURS = {
    "state", "handling exception", "lock type", "wait kind", "pair id", "gc generation", "handled",
    "caught at", "exception type", "allocator domain", "lock name",
}  # fmt: skip


def compare(ours: Upload, theirs: Upload) -> None:
    assert ours.path.rpartition("/")[2] == theirs.path.rpartition("/")[2]
    assert set(theirs.headers) - set(ours.headers) <= set()
    assert set(ours.headers) - set(theirs.headers) <= {"x-asked-for"}
    parts = [[(part.name, part.file_name, part.content_type) for part in one.parts()]
             for one in (ours, theirs)]  # fmt: skip
    assert parts[0] == parts[1]
    for name in "code-provenance.json", "profile.pprof":
        assert ours.part(name)[:4] == theirs.part(name)[:4]

    event, other = ours.event(), theirs.event()
    assert list(event) == list(other)
    assert {key: shape(value) for key, value in event.items()} == {
        key: shape(value) for key, value in other.items()
    }
    for key in "attachments", "family", "version", "endpoint_counts", "process_tags":
        assert event[key] == other[key]
    assert list(event["info"]["profiler"]) == list(other["info"]["profiler"])
    shared = set(event["internal"]) & set(other["internal"])
    assert shared == {
        "sample_count", "sampling_event_count", "sampling_interval_us", "sample_capture_cpu_time_us"
    }  # fmt: skip
    for key in shared:
        assert shape(event["internal"][key]) == shape(other["internal"][key]) == "int"

    tags, other_tags = dict(ours.tags()), dict(theirs.tags())
    assert set(other_tags) - set(tags) == {"profiler_config"}
    assert set(tags) - set(other_tags) <= {"process_type", "git.commit.sha", "git.repository_url"}
    for key in (
        "env", "service", "version", "language", "runtime", "runtime_version", "team",
        "runtime_platform",
    ):  # fmt: skip
        assert key == "runtime_version" or tags[key] == other_tags[key]
    assert tags["runtime-id"].replace("-", "").isalnum()

    mine, other_profile = ours.profile(), theirs.profile()
    # Ours are theirs, in their order, with their units; what they do not have comes last.
    own = {
        ("gil-wait", "nanoseconds"), ("gil-hold-blocking", "nanoseconds"),
        ("lock-hold-blocking", "nanoseconds"), ("gc-time", "nanoseconds"), ("gc-count", "count"),
        ("gc-collected", "count"),
    }  # fmt: skip
    shared = [kind for kind in mine.types if kind not in own]
    order = [other_profile.types.index(kind) for kind in shared]
    assert order == sorted(order)
    assert mine.types[: len(shared)] == shared
    assert mine.period_type == other_profile.period_type
    kinds = [
        {(key, shape(value)) for sample in one.samples for key, value in sample.labels.items()}
        for one in (mine, other_profile)
    ]
    both = {
        ("thread id", "int"), ("thread native id", "int"), ("thread name", "str"),
        ("end_timestamp_ns", "int"),
    }  # fmt: skip
    assert both <= kinds[0] and both <= kinds[1]
    assert {key for key, _ in kinds[0] - kinds[1]} <= OURS
    for one in mine, other_profile:
        functions = {name for sample in one.samples for name, _, _ in sample.stack}
        assert "burn" in functions
        threads = {sample.labels.get("thread name") for sample in one.samples}
        assert {"MainThread", "the worker"} <= threads
    names = [{library["name"] for library in one.provenance()} for one in (ours, theirs)]
    assert {"stdlib", "native"} <= names[0] & names[1]
    kinds_of = [{library["kind"] for library in one.provenance()} for one in (ours, theirs)]
    assert kinds_of[0] <= kinds_of[1] | {""}
    shapes = [{(key, shape(value)) for library in one.provenance()
               for key, value in library.items()} for one in (ours, theirs)]  # fmt: skip
    assert shapes[0] == shapes[1]
