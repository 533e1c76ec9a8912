"""The receiver of the real trace-agent (Datadog's own code) between us and an intake."""

import subprocess
import sys
from pathlib import Path

import pytest
from agent import run, spooled

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import go_program  # noqa: E402

SOURCES = Path(__file__).parent / "trace_agent"
WINDOW = "assert window()\nprofiler.stop(flush=False)\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return go_program.build(SOURCES, tmp_path_factory.mktemp("go"))


@pytest.fixture
def agent(program, stub, tmp_path):
    """The agent; the stub is the intake behind it."""
    command = [program, "-intake", f"{stub.url}/api/v2/profile", "-socket", tmp_path / "a.sock"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    process.stdin.close()
    process.wait(timeout=20)


@pytest.mark.timeout(600)  # the first build
def test_it_forwards_ours_unchanged(tmp_path, agent, make_stub, stub):
    """Byte for byte what a receiver without it gets; the intake's 202 comes back as a success."""
    direct = make_stub()
    stub.behaviour = 202
    done = run(tmp_path, WINDOW, PYROMETER_URL=f"{agent},{direct.url}", DD_SERVICE="web")
    assert (done.code, done.err) == (0, "")
    (got,), (same,) = stub.uploads, direct.uploads
    assert got.path == "/api/v2/profile"
    assert got.headers["dd-api-key"] == "the-agents-key"
    assert got.headers["via"].startswith("trace-agent")
    assert "host:the-agents-host" in got.headers["x-datadog-additional-tags"]
    assert got.headers["dd-evp-origin"] == "pyrometer"
    ours, theirs = ({part.name: part.body for part in one.parts()} for one in (same, got))
    assert ours == theirs and len(ours) == 3
    assert int(got.headers["content-length"]) == len(got.body)
    assert got.event()["family"] == "python" and got.profile().samples


def test_through_its_socket(tmp_path, agent, stub):
    done = run(tmp_path, WINDOW, PYROMETER_URL=f"unix://{tmp_path}/a.sock")
    assert (done.code, done.err, len(stub.uploads)) == (0, "", 1)


@pytest.mark.parametrize(("status", "kept"), [(403, 0), (500, 1), (429, 1)])
def test_what_the_intake_says_comes_through(tmp_path, agent, stub, status, kept):
    stub.behaviour = status
    done = run(
        tmp_path, "window()\nprofiler.stop(flush=False)", PYROMETER_URL=agent,
        PYROMETER_API_TIMEOUT_MS="3000",
    )  # fmt: skip
    assert done.code == 0 and len(done.lines) == 1 and f"says {status}" in done.err
    assert len(spooled(tmp_path)) == kept
