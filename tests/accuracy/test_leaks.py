"""What leaks is found, and what only fills up is not: the evidence in the windows' documents."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from memory_alone import documents, profiled
from truth import SIGMAS

pytestmark = pytest.mark.beside_others  # bytes and names, no times

LEAK_SEEDS = int(os.environ.get("PYROMETER_LEAK_SEEDS", "0"))


@pytest.mark.skipif(LEAK_SEEDS == 0, reason="five minutes: PYROMETER_LEAK_SEEDS=10 runs it")
@pytest.mark.timeout(900)
def test_a_slow_leak_ranks_first(tmp_path):
    """A megabyte a minute among a hundred a second that come and go and ten caches that level off:
    30 windows of ten seconds, programs of so many seeds side by side."""
    source = """
        import random, sys, time
        from pyrometer import Profiler

        random.seed(int(sys.argv[1]))
        leaked, caches = [], [{} for _ in range(10)]
        def leak():
            leaked.append(bytearray(10_000))
        def fill(cache, most):
            key = random.randrange(most)
            cache[key] = cache.get(key) or bytearray(20_000)
        def churn():
            for _ in range(20): bytearray(random.randrange(80_000)), [None] * 1000

        profiler = Profiler()
        profiler.start()
        begin, made, turn = time.monotonic(), 0, 0
        for window in range(1, 31):
            while (now := time.monotonic() - begin) < 10 * window:
                while made < 1e8 * now:
                    churn()
                    made += 20 * 48_000
                while len(leaked) < now / 60 * 100: leak()
                while turn < 20 * now:
                    turn += 1
                    for number, cache in enumerate(caches): fill(cache, 30 * (number + 1))
                time.sleep(0.02)
            profiler.flush(30)
        print(made / 1e6 / now)
        profiler.stop()
        """

    def run(seed):
        folder = tmp_path / str(seed)
        folder.mkdir()
        settings = {"timeout": 800, "PYROMETER_UPLOAD_INTERVAL": "1h"}
        return profiled(folder, source, seed, **settings)

    first = alarms = 0
    with ThreadPoolExecutor(LEAK_SEEDS) as pool:
        for done in pool.map(run, range(LEAK_SEEDS)):
            sites = documents(done)[29]["leak_sites"]
            first += sites[0]["function"] == "leak" and sites[0]["suspect"]
            suspects = [site["function"] for site in sites if site["suspect"]]
            alarms += len(suspects) - suspects.count("leak")
            print(f"{float(done.out):.0f} MB/s of churn; suspects: {suspects}")
    assert first >= 0.9 * LEAK_SEEDS
    assert alarms == 0


def test_a_leak_ranks_first_and_caches_are_quiet(tmp_path):
    """A line that leaks among churn, caches that fill up and level off, and sessions that come and
    go: windows are short here. Longer ones are simulated in tests/unit/test_heap_trend.c."""
    done = profiled(
        tmp_path,
        """
        import random, time
        from pyrometer import Profiler

        random.seed(3)
        leaked, caches, sessions = [], [{} for _ in range(10)], []
        def leak():
            leaked.append(bytearray(40_000))
        def fill(cache, most):
            key = random.randrange(most)
            cache[key] = cache.get(key) or bytearray(60_000)
        def come_and_go():
            sessions.append(bytearray(30_000))
            if len(sessions) > 100: del sessions[random.randrange(100)]
        def churn():
            for _ in range(20): bytearray(50_000), [None] * 1000

        profiler = Profiler()
        profiler.start()
        for window in range(26):
            for turn in range(40):
                if turn % 4 == 0: leak()
                for number, cache in enumerate(caches): fill(cache, 20 * (number + 1))
                come_and_go()
                churn()
            time.sleep(0.55)
            profiler.flush(30)
        print(sum(map(len, leaked)))
        profiler.stop()
        """,
        PYROMETER_UPLOAD_INTERVAL="60s",
    )
    last = documents(done)[-1]
    (suspect,) = [site for site in last["leak_sites"] if site["suspect"]]
    assert suspect["function"] == "leak"
    assert suspect["caller"].startswith("<module> (")
    assert suspect["confidence"] > 0.999
    assert abs(suspect["live_bytes"] - int(done.out)) < SIGMAS * suspect["standard_error"] + 1e6
    assert sum(suspect["live_bytes_by_age"]) == pytest.approx(suspect["live_bytes"], rel=1e-6)
    assert last["leak_sites"][0] == suspect
    # Nothing before there are ten windows.
    early = [document for document in documents(done) if document["window"]["sequence"] < 8]
    assert not any(site["suspect"] for one in early for site in one.get("leak_sites", []))
