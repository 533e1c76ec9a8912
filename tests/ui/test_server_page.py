"""The page of `pyrometer serve` in a real browser, against real servers."""

from __future__ import annotations

import json
import random
import shutil
import subprocess

import pytest
from conftest import HERE, UI, shared

pytestmark = pytest.mark.timeout(300)

serving = shared("server", "serving")  # what the server's own tests have
pprof = serving.pprof

TOKEN = "correct-horse-battery"


def profile(seed, slower):
    draw = random.Random(seed)
    made = pprof.Profile(
        [("cpu-time", "nanoseconds"), ("cpu-samples", "count")],
        time_ns=serving.NOW - 900 * serving.SECOND + seed * 60 * serving.SECOND,
        duration_ns=60 * serving.SECOND,
    )
    for name, count in [*((f"steady_{n}", 60) for n in range(6)), ("slower", slower)]:
        for _ in range(count):
            values = {"cpu-time": draw.randrange(5, 15) * 10**6, "cpu-samples": 1}
            labels = {"thread name": f"worker-{draw.randrange(3)}", "state": "on-cpu"}
            made.samples.append(
                pprof.Sample([(name, "/app/a.py", 7), ("main", "/app/a.py", 1)], values, labels)
            )
    return made


PAIR = [
    (f"{kind}-{what}", "nanoseconds")
    for kind, what in [("lock-acquire", "wait"), ("lock-hold", "blocking")]
]
START = serving.NOW - 1800 * serving.SECOND


def busy_window(served):
    """A window with everything: moments of two threads, a wait pair, exceptions, a document with a
    leak suspect, and how many requests were served."""
    types = [("cpu-time", "nanoseconds"), ("wall-time", "nanoseconds")]
    types += [("exception-samples", "count"), *PAIR]
    made = pprof.Profile(
        types, time_ns=START, duration_ns=10 * serving.SECOND, default_type="cpu-time"
    )

    def add(names, labels, **values):
        values = {name: values.get(name.replace("-", "_"), 0) for name, _ in types}
        stack = [(name, "/app/busy.py", 3) for name in names]
        made.samples.append(pprof.Sample(stack, values, labels))

    for second in range(10):
        for thread, (name, state) in enumerate([("compute", "on-cpu"), ("wait", "lock-wait")]):
            labels = {
                "thread name": f"lane-{thread}",
                "thread native id": 10 + thread,
                "state": state,
                "end_timestamp_ns": START + (second + 1) * serving.SECOND,
            }
            cpu = 10**9 if state == "on-cpu" else 0
            add([name, "main"], labels, cpu_time=cpu, wall_time=10**9)
    add(["waiter", "main"], {"pair id": 1, "thread name": "a"}, lock_acquire_wait=3 * 10**9)
    add(["holder", "main"], {"pair id": 1, "thread name": "b"}, lock_hold_blocking=3 * 10**9)
    add(["parse", "main"], {"exception type": "ValueError"}, exception_samples=41)
    add(["lookup", "main"], {"exception type": "KeyError"}, exception_samples=7)
    site = {"function": "remember", "file": "/app/busy.py", "line": 9, "caller": "main (busy.py:1)"}
    leak = {"live_bytes": 5e6, "growth_bytes_per_s": 1e3, "confidence": 0.999, "windows": 12}
    document = {
        "schema": 1,
        "identity": {"host": "box", "pid": 7, "python": "3.13.0"},
        "window": {"start_ns": START, "end_ns": START + 10 * serving.SECOND},
        "tick": {"interval_ns": 10**7, "wake_up_p99_ns": 10**5},
        "losses": {"missed-ticks": 5},
        "cost": {"sampler_cpu_ns": 2 * 10**7, "export_cpu_ns": 10**6},
        "memory": {"profiler_bytes": 3 << 20},
        "settings": {"UPLOAD_INTERVAL": "10s"},
        "collectors": {"gc": "off: not wanted"},
        "leak_sites": [{**site, **leak, "suspect": True}],
    }
    return made, document, {"endpoint_counts": {"GET /": served}}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("servers")
    secret = folder / "token"
    secret.write_text(TOKEN)
    servers = [
        serving.Server(folder / "empty"),
        serving.Server(folder / "full"),
        serving.Server(folder / "locked", "--read-token-file", str(secret)),
    ]
    try:
        full = servers[1]
        for seed in range(8):
            version, slower = ("1.0", 20) if seed < 4 else ("2.0", 200)
            assert full.upload(profile(seed, slower), version=version).code == 200
        for version, served in ("1.0", 100), ("2.0", 50):
            made, document, event = busy_window(served)
            tags = f"service:busy,version:{version},process_id:7"
            answer = serving.send_datadog(full, made, tags=tags, document=document, event=event)
            assert answer.code == 200, answer.body
        hostile = profile(0, 5)
        assert full.upload(hostile, service="<img src=x onerror=alert(1)>").code == 200
        node = shutil.which("node")
        assert node, "no node: install the package nodejs (20.19 or newer)"
        command = [node, str(HERE / "server_page.mjs"), *(server.url for server in servers), TOKEN]
        done = subprocess.run(
            command, cwd=UI, capture_output=True, text=True, timeout=280, check=False
        )
    finally:
        ends = [server.stop() for server in servers]
    assert ends == [(0, "")] * 3
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, f"the checks did not run:\n{done.stdout}{done.stderr}"
    return {result["name"]: result for result in lines}


def check_names() -> list[str]:
    source = (HERE / "server_page.mjs").read_text(encoding="utf-8")
    return [line.split('"')[1] for line in source.splitlines() if line.startswith('    async "')]


@pytest.mark.parametrize("name", check_names())
def test_page(name, results):
    assert name in results, "the run ended before this check"
    assert results[name]["ok"], results[name]["detail"]
