"""Runs a program of known behaviour under the profiler, and holds its profile against the truth.

How bounds are made. What is exact by design (sums of clocks, names, callers) has a fixed bound.
What is sampled has the sampling error on top: a share is estimated by a ratio of sums over
samples, so its standard error is computed from the very samples (`Share.error`), and SIGMAS of it
are allowed. At 4 sigma a correct profiler fails one comparison in 16,000. Nothing here depends on
how fast the machine is: programs measure themselves by clocks.
"""

import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent / "e2e"), str(FOLDER.parent / "support")]

import agent  # noqa: E402
import pprof  # noqa: E402

SIGMAS = 4
FINE = {"PYROMETER_SAMPLING_INTERVAL": "1ms", "PYROMETER_OVERHEAD_PCT": "50"}
LONG = float(os.environ.get("PYROMETER_ACCURACY_LONG", 0))  # seconds; 0: the short variant

EXACT = ("<profiler>", "<native threads>", "<short-lived threads>")

Test = Callable[[pprof.Sample], bool]


@dataclass
class Share:
    value: float
    error: float  # one standard error
    effective: float  # as many equal samples would have such an error

    def is_within(self, least: float, most: float, tolerance: float = 0.0) -> bool:
        """Near enough to an interval. A rare thing may have been seen not at all: its error is
        what the truth says that it is."""
        truth = min(max(self.value, least), most)
        error = max(self.error, math.sqrt(truth * (1 - truth) / self.effective))
        return abs(self.value - truth) <= tolerance + SIGMAS * error

    def is_near(self, truth: float, tolerance: float = 0.0) -> bool:
        return self.is_within(truth, truth, tolerance)


@dataclass
class Measured:
    truth: dict
    samples: list[pprof.Sample]
    documents: list[dict]

    @property
    def interval(self) -> float:
        """Mean seconds between ticks, as they were on this machine."""
        return self.truth["wall"][1] / sum(document["tick"]["ticks"] for document in self.documents)

    @property
    def lateness(self) -> float:
        """Seconds within which a change is seen, with room for the latest of all ticks: only the
        99th percentile of lateness is written down, and on a busy machine its tail is long."""
        late = max(document["tick"]["wake_up_p99_ns"] for document in self.documents) / 1e9
        return 2 * self.interval + 4 * late

    def total(self, kind: str, of: Test = lambda sample: True) -> float:
        """Seconds of cpu-time or wall-time."""
        return sum(sample.values[kind] for sample in self.samples if of(sample)) / 1e9

    def share(self, kind: str, of: Test, among: Test = lambda sample: True) -> Share:
        """The share of `of` in the time of `among`, with its standard error. What the profile has
        from a clock and not from looks (`<profiler>` and the like) adds no error."""
        pairs = [
            (s.values[kind], of(s), s.stack[-1][0] not in EXACT)
            for s in self.samples
            if s.values[kind] and among(s)
        ]
        total = sum(value for value, _, _ in pairs)
        assert total > 0, f"no {kind} in {len(self.samples)} samples"
        share = sum(value for value, inside, _ in pairs if inside) / total
        looks = [(value, inside) for value, inside, sampled in pairs if sampled]
        sampled = sum(value for value, _ in looks)
        mean = share * total / sampled
        squares = sum((value * (inside - mean)) ** 2 for value, inside in looks)
        effective = total**2 / sum(value**2 for value, _ in looks)
        return Share(share, math.sqrt(squares) / total, effective)


def measured(
    folder: Path, source: str, *arguments: str, most_lost: float = 0.01, **settings: str
) -> Measured:
    """Runs the program, whose last line is its truth in JSON, and reads what it delivered."""
    python_path = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))
    settings = {"PYTHONPATH": python_path, "PYROMETER_EXIT_TIMEOUT": "30s"} | settings
    done = agent.run(folder, source, *arguments, timeout=60 + 10 * LONG, **settings)
    assert done.code == 0, done.err
    assert not done.err, done.err
    return read(json.loads(done.out.splitlines()[-1]), done, most_lost)


def read(truth: dict, done: agent.Outcome, most_lost: float = 0.01) -> Measured:
    """What a program delivered, which must have lost next to nothing: this share of its visits."""
    files = sorted(done.folder.glob("app.*.json"))
    documents = [json.loads(file.read_text()) for file in files]
    losses = [document["losses"] for document in documents]
    # A busy machine misses ticks: that is its speed, and no loss of what was seen.
    others = ("missed-ticks", "missed-allocation")
    lost = sum(n for loss in losses for reason, n in loss.items() if reason not in others)
    visits = sum(document["tick"]["visits"] for document in documents)
    assert lost <= most_lost * visits + 5, (visits, losses)
    missed = sum(loss.get("missed-allocation", 0) for loss in losses)
    sampled = sum(document.get("heap", {}).get("sampled", 0) for document in documents)
    assert missed <= most_lost * sampled + 5, (sampled, losses)
    return Measured(truth, done.samples(), documents)


def true_share(used: dict, name: str) -> tuple[float, float]:
    """The share of an activity in the CPU of a Meter, as an interval that is a point on a machine
    with a free CPU. Where other programs take the CPU away, a thread that holds the GIL and waits
    for a CPU is seen where it was stopped, and a program is not stopped at random: after a sleep
    it has its slice before it. So the interval reaches to the share in CPU and such waits."""
    cpu = {key: row[1] for key, row in used.items()}
    able = {key: row[1] + row[2] for key, row in used.items()}
    shares = cpu[name] / sum(cpu.values()), able[name] / sum(able.values())
    return min(shares), max(shares)


def has(function: str) -> Test:
    """Samples with the Python function anywhere in their stacks."""
    return lambda sample: any(name == function for name, _, _ in sample.stack)


def of_thread(native_id: int) -> Test:
    return lambda sample: sample.labels.get("thread native id") == native_id
