"""Waits for the GIL against clocks: wall time that was neither CPU time nor a wait for a CPU."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from agent import run  # noqa: E402


@pytest.mark.parametrize("threads", [2, 4])
def test_computing_threads(tmp_path, threads):
    done = run(
        tmp_path,
        f"""
import json, threading, time
import pyrometer
profiler = pyrometer.Profiler(upload_interval="1h", sampling_interval="2ms", overhead_pct="20")
profiler.start()
facts, gate = [], threading.Barrier({threads})
def delay():
    '''Seconds that this thread waited for a CPU, by the kernel.'''
    with open(f"/proc/self/task/{{threading.get_native_id()}}/schedstat") as file:
        return int(file.read().split()[1]) / 1e9
def compute():
    gate.wait()
    wall, cpu, waited = time.monotonic(), time.thread_time(), delay()
    end = wall + 4
    while time.monotonic() < end:
        for _ in range(200): pass
    facts.append([time.monotonic() - wall, time.thread_time() - cpu, delay() - waited])
workers = [threading.Thread(target=compute) for _ in range({threads})]
for worker in workers: worker.start()
for worker in workers: worker.join()
print(json.dumps(facts))
profiler.stop()
""",
        timeout=120,
    )
    assert (done.code, done.err) == (0, "")
    wall, cpu, waited = (sum(column) for column in zip(*json.loads(done.out), strict=True))
    measured = sum(s.values["gil-wait"] for s in done.samples()) / 1e9
    # A thread that was woken for the GIL and waits for a CPU may be said to wait for either. Both
    # ends meet on a machine with a free CPU.
    assert 0.95 * (wall - cpu - waited) <= measured <= 1.05 * (wall - cpu), (wall, cpu, waited)
    assert wall - cpu > 0.3 * wall
