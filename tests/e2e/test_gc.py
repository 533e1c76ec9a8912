"""Pauses of the garbage collector."""

import json

from agent import run

SOURCE = """
import gc, time
import pyrometer
gc.collect(); gc.disable()
before = list(gc.callbacks)
profiler = pyrometer.Profiler(upload_interval="1h")
profiler.start()
class Node: pass
def ring():
    one, two = Node(), Node()
    one.other, two.other = two, one
truth = []
def clock(phase, info):
    truth.append((phase, time.monotonic_ns(), info["generation"], info["collected"]))
def collect(generation):
    gc.collect(generation)
def many():
    for _ in range(500): ring()
    for _ in range(300): collect(0)
gc.callbacks.append(clock)
many()
for _ in range(20000): ring()
keep = [[i] for i in range(300000)]
collect(2)
gc.callbacks.remove(clock)
facts = profiler.status()["gc"]
profiler.stop()
assert gc.callbacks == before
starts = [t for phase, t, _, _ in truth if phase == "start"]
stops = [(t, g, c) for phase, t, g, c in truth if phase == "stop"]
import json
print(json.dumps([[t - s, g, c] for s, (t, g, c) in zip(starts, stops)]))
"""


def test_time_generation_objects_and_stack(tmp_path):
    done = run(tmp_path, SOURCE)
    assert (done.code, done.err) == (0, "")

    truth = json.loads(done.out)
    samples = [s for s in done.samples() if s.values["gc-count"]]
    assert sum(s.values["gc-count"] for s in samples) == len(truth) == 301
    assert sum(s.values["gc-collected"] for s in samples) == sum(c for _, _, c in truth)
    total = sum(t for t, _, _ in truth)
    # Ours begins before the program's own callback and ends after it began to end.
    assert 0.9 * total < sum(s.values["gc-time"] for s in samples) < 1.3 * total + 2_000_000
    (full,) = [s for s in samples if s.labels["gc generation"] == 2]
    assert [name for name, _, _ in full.stack] == ["collect", "<module>"]
    assert full.values["gc-collected"] >= 40_000
    assert "end_timestamp_ns" in full.labels
    young = [s for s in samples if s.labels["gc generation"] == 0]
    assert sum(s.values["gc-count"] for s in young) == 300
    stacks = {tuple(name for name, _, _ in s.stack) for s in young}
    assert stacks <= {
        ("collect", "many", "<module>"),
        ("<collections between samples>",),
    }


def test_switched_off(tmp_path):
    done = run(tmp_path, SOURCE.replace('["gc"]', '.get("gc")'), PYROMETER_GC_ENABLED="0")
    assert (done.code, done.err) == (0, "")
    (profile,) = done.profiles()
    assert "gc-time" not in dict(profile.types)
