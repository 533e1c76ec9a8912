"""A web service at saturation, on one core and on two: the handler's share of the CPU.

This is where samplers fail that are woken only when the program blocks, or that put CPU on waits.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing

import pytest
from truth import FINE, FOLDER, agent, has, read, true_share

pytest.importorskip("flask")
pytest.importorskip("gunicorn")

WITHIN = 0.03
CONNECTIONS, SECONDS = 8, 5


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port: int, server: subprocess.Popen) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end and server.poll() is None:
        with closing(socket.socket()) as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("the service does not answer")


@pytest.mark.parametrize(("cores", "settings"), [(1, FINE), (2, FINE), (1, {})])
def test_handler_has_its_share(tmp_path, cores, settings):
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    if len(allowed) < cores:
        pytest.skip(f"this machine has no {cores} cores")
    port = free_port()
    # PYTHONPATH instead of --chdir: no file of the service may land in the checkout.
    environment = agent.environment(tmp_path / "out", PYTHONPATH=str(FOLDER), **settings)
    command = [sys.executable, "-m", "gunicorn", "--worker-class", "gthread", "--threads", "8"]
    command += ["--log-level", "error", "--bind", f"127.0.0.1:{port}", "service:app"]
    server = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
    )
    try:
        wait_for(port, server)
        loader = [sys.executable, str(FOLDER / "load.py")]
        loader += [str(port), str(CONNECTIONS), str(SECONDS)]
        done = subprocess.run(loader, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)
    truth = json.loads(done.stdout)
    found = read(truth, agent.Outcome(0, "", "", tmp_path / "out"))
    share = found.share("cpu-time", has("handle"))
    least, most = true_share(truth["used"], "handle")
    print(f"{cores} cores: {share}, expected {least} to {most}, {truth}")
    assert found.total("cpu-time") == pytest.approx(truth["process"], rel=0.01, abs=0.05)
    assert share.is_within(least, most, WITHIN), (share, least, most)
