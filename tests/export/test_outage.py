"""A receiver that is dead for minutes and comes back: every window arrives once, and the programs
notice nothing of it, held against one whose receiver was well.

PYROMETER_OUTAGE_SECONDS sets how long it is dead (600: ten minutes, with windows of ten seconds).
"""

import json
import os
import threading
import time
from dataclasses import dataclass
from datetime import datetime

import pytest
from agent import start
from stub import Stub, free_port

SECONDS = float(os.environ.get("PYROMETER_OUTAGE_SECONDS", "8"))
INTERVAL = max(1.0, SECONDS / 60)
BACK = 3 * INTERVAL + 3  # the next window brings what waits, and that may be up to two away

# The same steps of work in every run, at fixed times.
PROGRAM = """
import json, resource
def work():
    sum(range(20_000))
start, steps = time.monotonic(), int({seconds} / 0.05)
for step in range(steps):
    work()
    time.sleep(max(0, start + step * 0.05 - time.monotonic()))
with open("/proc/self/statm") as file:
    resident = int(file.read().split()[1]) * resource.getpagesize()
cpu = time.process_time()
print(json.dumps(dict(pid=os.getpid(), cpu=cpu, others=cpu - time.thread_time(), rss=resident)))
sys.stdout.flush()
"""


@dataclass
class Run:
    """A program that runs, and what it said and did at its end."""

    process: object
    facts: dict | None = None
    exit_seconds: float = 0.0
    err: str = ""

    def __post_init__(self):
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()

    def follow(self):
        line = self.process.stdout.readline()
        begin = time.monotonic()
        self.process.wait()
        self.exit_seconds = time.monotonic() - begin
        self.err = self.process.stderr.read()
        self.facts = json.loads(line)

    def end(self):
        self.thread.join()
        self.process.communicate()
        assert self.process.returncode == 0, self.err


def launch(folder, name, seconds, url, spool):
    place = folder / name
    place.mkdir()
    return Run(
        start(
            place,
            PROGRAM.format(seconds=seconds),
            PYROMETER_URL=url,
            PYROMETER_SPOOL_DIR=str(spool),
            PYROMETER_UPLOAD_INTERVAL=f"{INTERVAL}s",
            PYROMETER_EXIT_TIMEOUT="1s",
            PYROMETER_API_TIMEOUT_MS=f"{INTERVAL * 1000:.0f}",
        )
    )


def seconds(text):
    return datetime.fromisoformat(text).timestamp()


def check_windows(uploads, facts):
    """Each window of a process once, from its start to its end, with all that it used."""
    mine = [one for one in uploads if dict(one.tags())["process_id"] == str(facts["pid"])]
    events = sorted((seconds(one.event()["start"]), seconds(one.event()["end"])) for one in mine)
    for (_, before), (after, _) in zip(events, events[1:], strict=False):
        assert abs(after - before) < 0.001, events  # neither a gap nor twice
    used = sum(one.profile().total("cpu-time") for one in mine) / 1e9
    assert 0.95 * facts["cpu"] - 0.1 < used < 1.05 * facts["cpu"] + 0.1, (used, facts)
    return len(events)


@pytest.mark.timeout(SECONDS + BACK + 600)
@pytest.mark.parametrize("kind", ["closed port", "hangs"])
def test_br_049_dead_for_minutes_and_back(tmp_path, make_stub, kind):
    well = make_stub()
    if kind == "hangs":
        dead = make_stub()
        over = threading.Event()
        dead.before_reading = lambda handler: over.wait()
        port = dead.port
    else:
        port = free_port()
    url, spool = f"http://127.0.0.1:{port}", tmp_path / "spool"
    begin = time.monotonic()
    whole = SECONDS + BACK
    undisturbed = launch(tmp_path, "undisturbed", whole, well.url, tmp_path / "other")
    through = launch(tmp_path, "through", whole, url, spool)
    ended = launch(tmp_path, "ended", SECONDS / 2, url, spool)  # before it is back
    ended.end()
    time.sleep(max(0, begin + SECONDS - time.monotonic()))
    waiting = len(list(spool.glob("*.request")))
    if kind == "hangs":
        # What it had been sent, it reads now; nobody waits for the answers any more.
        dead.before_reading = None
        dead.behaviour = lambda handler, request: None
        over.set()
        time.sleep(0.5)
        dead.behaviour = 200
    else:
        dead = Stub(port=port)
    try:
        for run in through, undisturbed:
            run.end()
    finally:
        if kind != "hangs":
            dead.close()

    counts = [check_windows(dead.uploads, run.facts) for run in (through, ended)]
    counts.append(check_windows(well.uploads, undisturbed.facts))
    assert not list(spool.glob("*.request"))
    assert waiting >= 2, counts
    for run in through, ended, undisturbed:
        print(run.facts, f"exit {run.exit_seconds:.2f} s")
    print(f"{waiting} windows waited; windows: {counts}")
    # One line for each change; nothing where all was well. A short one may pass between two tries.
    assert undisturbed.err == ""
    unnoticed = [0] if kind == "hangs" and SECONDS < 60 else []
    assert len(through.err.splitlines()) in [2, *unnoticed], through.err
    assert len(ended.err.splitlines()) in [1, *unnoticed], ended.err

    cost = through.facts["others"] - undisturbed.facts["others"]
    assert cost < 0.01 * whole + 0.3, (through.facts, undisturbed.facts)
    assert through.facts["rss"] - undisturbed.facts["rss"] < 4 << 20
    for run in through, ended:
        assert run.exit_seconds < undisturbed.exit_seconds + 1.5
