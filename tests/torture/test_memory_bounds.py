"""What the profiler keeps and delivers has a bound, whatever the program does for however long; and
what it has delivered outlives the program.

By default each lasts seconds; PYROMETER_TORTURE_SECONDS makes them as long as one wants.
"""

import json
import signal

import agent
import pprof
import pytest
from conftest import seconds

SECONDS = seconds(4)
FAST = {"PYROMETER_SAMPLING_INTERVAL": "1ms", "PYROMETER_OVERHEAD_PCT": "100"}
# Collects what grows after half of the time, when all tables have the size that they keep.
BEGIN = """
import asyncio, gc, json, sys, threading, time
from pyrometer import Profiler

def resident():
    rows = open("/proc/self/smaps_rollup").read().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("Private_Dirty")) * 1024

def grown(work, seconds):
    '''The profiler's own memory and the process's: at the end less at half of the time.'''
    seen, begin = [], time.monotonic()
    for share in (0.5, 1):
        while time.monotonic() < begin + share * seconds: work()
        profiler.flush(30)
        gc.collect()
        seen.append([profiler.status()["memory"]["profiler_bytes"], resident()])
    return [after - before for before, after in zip(*seen)]

profiler = Profiler()
profiler.start()
seconds = float(sys.argv[1])
"""


def run(folder, source, **settings):
    begin = agent.textwrap.dedent(BEGIN) + agent.textwrap.dedent(source)
    settings = {"PYROMETER_UPLOAD_INTERVAL": "1s", "PYROMETER_EXIT_TIMEOUT": "30s"} | settings
    return agent.run(folder, begin, str(SECONDS), timeout=120 + 2 * SECONDS, **settings)


def test_br_043_an_idle_worker_stays_as_it_is(tmp_path):
    """50 tasks and 20 threads that wait, looked at ten times as often as usual."""
    done = run(
        tmp_path,
        """
        over = threading.Event()
        threads = [threading.Thread(target=over.wait) for _ in range(20)]
        for thread in threads: thread.start()
        async def idle():
            waits = [asyncio.create_task(asyncio.sleep(3600)) for _ in range(50)]
            await asyncio.sleep(0.05)
            for wait in waits: wait.cancel()
        print(json.dumps(grown(lambda: asyncio.run(idle()), seconds)))
        over.set()
        profiler.stop()
        """,
        **FAST,
    )
    assert (done.code, done.err) == (0, "")
    own, all_of_it = json.loads(done.out)
    assert own < 1 << 20
    assert all_of_it < 4 << 20


def test_br_045_code_made_at_run_time(tmp_path):
    """Each function has a file name of its own, allocates, raises, and takes a lock."""
    done = run(
        tmp_path,
        """
        TEXT = "def g():\\n with lock:\\n  try: raise KeyError(bytes(5000))\\n" \\
               "  except KeyError: pass"
        lock, number = threading.Lock(), 0
        def work():
            global number
            number += 1
            scope = {"lock": lock}
            exec(compile(TEXT, f"<made {number}>", "exec"), scope)
            scope["g"]()
        print(json.dumps([*grown(work, seconds), number]))
        profiler.stop()
        """,
        **FAST,
    )
    assert (done.code, done.err) == (0, "")
    own, all_of_it, number = json.loads(done.out)
    assert number > 1000
    assert own < 4 << 20  # names live in a table that is renewed when it is full
    assert all_of_it < 16 << 20


def test_br_056_br_061_profiles_of_many_allocations_are_small(tmp_path):
    """As many as a thread can make: windows stay below a megabyte, and what we keep as it is."""
    done = run(
        tmp_path,
        """
        def work():
            for i in range(20_000): [i], bytes(i % 700), object()
        print(json.dumps(grown(work, seconds)))
        profiler.stop()
        """,
    )
    assert (done.code, done.err) == (0, "")
    own, all_of_it = json.loads(done.out)
    assert own < 1 << 20
    assert all_of_it < 8 << 20
    assert len(done.files()) >= 3
    assert max(file.stat().st_size for file in done.files()) < 1 << 20
    assert sum(profile.total("alloc-samples") for profile in done.profiles()) > 1e5 * SECONDS / 4


def test_br_057_profiles_of_a_program_that_is_killed(tmp_path):
    """As the kernel ends what has no memory left: windows up to the last one are there."""
    done = run(
        tmp_path,
        """
        import os, signal
        kept = []
        def leak():
            kept.append(bytearray(1_000_000))
        end = time.monotonic() + max(seconds, 3.5)
        while time.monotonic() < end:
            leak()
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert done.code == -signal.SIGKILL
    profiles = [pprof.parse(file.read_bytes()) for file in done.files()]
    live = [profile.total("heap-space") for profile in profiles]
    assert len(live) >= 2
    assert live[-1] > 1.2 * live[0] > 10e6
    leaf = max(profiles[-1].samples, key=lambda sample: sample.values["heap-space"])
    assert leaf.stack[0][0] == "leak"


@pytest.mark.parametrize("other", ["status", "flush"])
def test_br_058_starts_stops_and_questions_at_once(tmp_path, other):
    """From several threads, while others allocate."""
    done = run(
        tmp_path,
        f"""
        going, turns = True, [0] * 8
        def allocate(i):
            while going: turns[i] += len([bytes(n) for n in range(300)]) > 0
        def toggle(i):
            while going:
                profiler.stop(flush=False)
                profiler.start()
                turns[i] += 1
        def ask(i):
            while going:
                profiler.status() if {other!r} == "status" else profiler.flush(1)
                turns[i] += 1
        kinds = (allocate, toggle, ask, allocate, toggle, ask, allocate, toggle)
        threads = [threading.Thread(target=f, args=(i,)) for i, f in enumerate(kinds)]
        for thread in threads: thread.start()
        time.sleep(seconds)
        going = False
        for thread in threads: thread.join()
        profiler.stop()
        assert all(turns), turns
        """,
    )
    assert done.code == 0, done.err
    lines = [line for line in done.err.splitlines() if "already" not in line]
    assert lines == []
