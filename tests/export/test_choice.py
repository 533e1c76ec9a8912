"""Where profiles go when nobody says where, each case in a network and a /run of its own."""

import os
import subprocess

import pytest
from agent import finish, start

ISOLATED = ("unshare", "--net", "--mount", "sh", "-c")
SCRIPT = """
ip link set lo up 2>/dev/null || ifconfig lo up
mount -t tmpfs tmpfs /run && mkdir /run/datadog
exec "$0" "$@"
"""
# The receiver and the program are one process here: a network of its own has nobody else in it.
RECEIVER = """
sys.path.insert(0, {folder!r})
import stub as stubs
"""


def is_possible() -> bool:
    if os.geteuid() != 0:
        return False
    command = [*ISOLATED, SCRIPT + "\n", "true"]
    return subprocess.run(command, capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not is_possible(), reason="needs namespaces, so root")


def run(folder, before, after, **settings):
    preamble = "import os, sys, time\n" + RECEIVER.format(folder=os.path.dirname(__file__))
    source = before + "\n" + BODY + after
    process = start(folder, source, wrapper=(*ISOLATED, SCRIPT), preamble=preamble, **settings)
    done = finish(process)
    assert done.code == 0, done.err
    return done


BODY = """
from pyrometer import Profiler
profiler = Profiler()
profiler.start()
print(profiler.status()["start_line"])
end = time.thread_time() + 0.1
while time.thread_time() < end:
    sum(range(500))
assert profiler.flush(20)
print(profiler.status()["delivery"]["target"])
profiler.stop(flush=False)
"""


def test_nothing_there_is_files(tmp_path):
    done = run(tmp_path, "", "")
    assert "files" in done.out.splitlines()[0] and done.err == ""
    assert len(list((tmp_path / "pyrometer-profiles").glob("*.pprof"))) == 1


def test_the_agents_socket(tmp_path):
    socket = "/var/run/datadog/apm.socket"
    done = run(tmp_path, f"got = stubs.Stub(path='{socket}')", "print(len(got.uploads))")
    lines = done.out.splitlines()
    assert f"the Datadog Agent at unix://{socket}" in lines[0]
    assert lines[-1] == "1"
    assert not (tmp_path / "pyrometer-profiles").exists()


def test_a_local_server(tmp_path):
    before = "got = stubs.Stub(port=4077)\ngot.is_pyrometer = True"
    done = run(tmp_path, before, "print(len(got.uploads), len(got.uploads[0].parts()))")
    lines = done.out.splitlines()
    assert "pyrometer serve (else files) at http://127.0.0.1:4077" in lines[0]
    assert lines[1] == "pyrometer serve at http://127.0.0.1:4077"
    assert lines[-1] == "1 4"


@pytest.mark.parametrize("before", [
    "got = stubs.Stub(port=4077)",
    "import socket\ngot = socket.create_server(('127.0.0.1', 4077))",
], ids=["something else", "hanging"])  # fmt: skip
def test_something_else_on_its_port(tmp_path, before):
    """One line, and the window is in a file."""
    done = run(tmp_path, before, "")
    assert len(done.lines) == 1 and "instead" in done.err
    assert "files" in done.out.splitlines()[1]
    files = list((tmp_path / "pyrometer-profiles").glob("*.pprof"))
    assert len(files) == 1 and files[0].read_bytes()[:2] == b"\x1f\x8b"


def test_a_setting_wins(tmp_path):
    before = "got = stubs.Stub(port=4077)\ngot.is_pyrometer = True"
    done = run(tmp_path, before, "print(len(got.attempts))", PYROMETER_OUTPUT_PPROF="out/app")
    assert done.out.splitlines()[-1] == "0"
    assert list((tmp_path / "out").glob("*.pprof"))
