"""CPU time: the sums are those of the kernel's clocks, and it stands where it was used."""

import pytest
from truth import FINE, has, measured, of_thread, true_share

IDLE_FUNCTIONS = 0.005  # the most CPU on functions that use none


@pytest.mark.parametrize(("idle", "settings"), [(0, {}), (10, FINE), (100, {})])
def test_functions_that_use_none_get_none(tmp_path, idle, settings):
    """Two functions compute, others sleep or wait, in this thread and in idle ones."""
    found = measured(
        tmp_path,
        f"""
        import queue
        from inside import *

        def first(): burn(0.006)
        def second(): burn(0.004)
        def pause(): time.sleep(0.003)
        def waiter(number):
            (event.wait, jobs.get, lock.acquire, lambda: time.sleep(600))[number % 4]()

        event, jobs, lock = threading.Event(), queue.SimpleQueue(), threading.Lock()
        lock.acquire()
        for number in range({idle}):
            threading.Thread(target=waiter, args=(number,), daemon=True).start()

        def work():
            meter, end = Meter(), time.monotonic() + 4
            while time.monotonic() < end:
                for function in first, pause, second:
                    meter.run(function)
            return {{"meter": meter}}
        measure(work)
        """,
        **settings,
    )
    assert found.total("cpu-time", has("waiter")) <= 0.001 * found.total("cpu-time")
    pause = found.share("cpu-time", has("pause"))
    paused = found.truth["meter"]["used"]["pause"][1] / found.total("cpu-time")
    assert pause.is_within(0, paused, IDLE_FUNCTIONS), (pause, paused)


@pytest.mark.parametrize(("busy", "sleep"), [(1, 19), (4, 16), (16, 4), (0.4, 0.1)])
def test_br_018_duty_cycles(tmp_path, busy, sleep):
    """A thread burns and sleeps in turn: all of its CPU, and all of it on the burning."""
    found = measured(
        tmp_path,
        f"""
        from inside import *

        def busy(): burn({busy} / 1000)
        def pause(): time.sleep({sleep} / 1000)
        def cycle(facts):
            meter, end = Meter(), time.monotonic() + 3
            while time.monotonic() < end:
                meter.run(busy)
                meter.run(pause)
            facts["meter"] = meter

        def work():
            facts, workers = {{}}, Workers()
            workers.start(cycle, facts)
            workers.wait()
            facts["clock"] = workers.clocks[facts["meter"].native_id]
            return facts
        measure(work)
        """,
    )
    meter, clock = found.truth["meter"], found.truth["clock"]
    worker = of_thread(meter["native_id"])
    assert found.total("cpu-time", worker) == pytest.approx(clock, rel=0.01, abs=0.001)
    pause = found.share("cpu-time", has("pause"), worker)
    assert pause.is_within(0, meter["used"]["pause"][1] / clock, IDLE_FUNCTIONS), (pause, meter)


RELEASING = """
    import zlib
    from inside import *
    {prepare}

    def release():
        end = time.thread_time() + 0.004
        while time.thread_time() < end:
            {release}
    def think(): burn(0.004)

    def mixed(facts):
        '''Releases the GIL and computes with it, in stretches of some milliseconds.'''
        meter, end = Meter(), time.monotonic() + 4
        while time.monotonic() < end:
            meter.run(release)
            meter.run(think)
        facts["mixed"] = meter
    def steady(facts):
        meter, end = Meter(), time.monotonic() + 4
        while time.monotonic() < end:
            meter.run(burn, 0.05)
        facts["steady"] = meter

    def work():
        facts, workers = {{}}, Workers()
        workers.start(mixed, facts)
        workers.start(steady, facts)
        workers.wait()
        facts["clocks"] = workers.clocks
        return facts
    measure(work)
    """
RELEASES = {
    "zlib": ("data = bytes(range(256)) * 400", "zlib.compress(data)"),
    "numpy": ("import numpy\n    data = numpy.ones((200, 200))", "data @ data"),
}


@pytest.mark.parametrize("library", RELEASES)
def test_c_code_without_the_gil(tmp_path, library):
    """One thread computes in C without the GIL and in Python, while another one computes."""
    pytest.importorskip(library)
    prepare, release = RELEASES[library]
    source = RELEASING.format(prepare=prepare, release=release)
    found = measured(tmp_path, source, OPENBLAS_NUM_THREADS="1", **FINE)
    truth = found.truth
    for role in "mixed", "steady":
        native_id = truth[role]["native_id"]
        clock = truth["clocks"][str(native_id)]
        assert found.total("cpu-time", of_thread(native_id)) == pytest.approx(clock, rel=0.01)
    released = found.share(
        "cpu-time", has("release"), lambda sample: has("release")(sample) or has("think")(sample)
    )
    least, most = true_share(truth["mixed"]["used"], "release")
    assert released.is_within(least, most, 0.01), (released, least, most)
    assert found.share("cpu-time", has("wait")).value <= IDLE_FUNCTIONS  # of who waits for them


@pytest.mark.parametrize("settings", [{}, FINE | {"PYROMETER_UPLOAD_INTERVAL": "1s"}])
def test_the_sum_is_the_clock_of_the_process(tmp_path, settings):
    """Threads of every length, some shorter than a tick, and some that live on; several windows."""
    found = measured(
        tmp_path,
        """
        from inside import *

        def work():
            workers = Workers()
            for length in 0.6, 0.4, 0.2:
                workers.start(burn, length)
            short = []
            for number in range(300):
                short.append(threading.Thread(target=burn, args=(0.002,)))
                short[-1].start()
                if number % 20 == 0:
                    short.append(threading.Thread(target=burn, args=(0.02,)))
                    short[-1].start()
                time.sleep(0.001)
            for thread in short:
                thread.join()
            workers.wait()
            return {"clocks": workers.clocks}
        measure(work)
        """,
        **settings,
    )
    least, most = found.truth["cpu"]
    assert least * 0.99 <= found.total("cpu-time") <= most * 1.01
    for native_id, clock in found.truth["clocks"].items():
        total = found.total("cpu-time", of_thread(int(native_id)))
        assert total == pytest.approx(clock, rel=0.01, abs=0.001)
    # What has no better name is no more than the threads that were too short to be seen, and the
    # last moments of the others.
    assert found.total("cpu-time", has("<short-lived threads>")) <= 300 * 0.003 + 15 * 0.02


@pytest.mark.parametrize(
    ("unit", "sleep", "settings"),
    [
        (0.0005, 0.001, FINE),
        (0.0005, 0.001, {}),
        (0.004, 0.003, FINE),
        (0.004, 0.003, {}),
        (0.03, 0.02, {}),
    ],
)
def test_three_to_one(tmp_path, unit, sleep, settings):
    """Stretches shorter than a tick, about as long, and longer, with sleeps between them."""
    found = measured(
        tmp_path,
        f"""
        from inside import *

        def big(): burn(3 * {unit})
        def small(): burn({unit})
        def work():
            meter, end = Meter(), time.monotonic() + 4
            while time.monotonic() < end:
                for function in big, small:
                    meter.run(function)
                    time.sleep({sleep})
            return {{"meter": meter}}
        measure(work)
        """,
        **settings,
    )
    big = found.share("cpu-time", has("big"), lambda s: has("big")(s) or has("small")(s))
    least, most = true_share(found.truth["meter"]["used"], "big")
    assert big.is_within(least, most), (big, least, most)
    assert big.effective > 20  # else the bound would say nothing


@pytest.mark.parametrize("sleep", [0.03, 0])
def test_what_requests_begin_and_end_with(tmp_path, sleep):
    """Threads that each do three things for some ticks, and rest: none of them gets what belongs to
    another, though there are few looks at each thread."""
    found = measured(
        tmp_path,
        f"""
        from inside import *

        def first(): burn(0.03)
        def second(): burn(0.03)
        def third(): burn(0.03)
        def request():
            for function in first, second, third:
                function()
                time.sleep({sleep})
            time.sleep(1)
        def work():
            threads = [threading.Thread(target=request) for _ in range(60)]
            for thread in threads:
                thread.start()
                time.sleep(0.1)
            for thread in threads:
                thread.join()
        measure(work)
        """,
    )
    steps = "first", "second", "third"
    for step in steps:
        share = found.share("cpu-time", has(step), lambda s: any(has(each)(s) for each in steps))
        assert share.is_near(1 / 3, 0.02), (step, share)
    assert found.total("cpu-time", has("first")) > 1


THERE = """
import time
def there():
    end = time.thread_time() + 0.012
    while time.thread_time() < end:
        for _ in range(300): pass
"""


@pytest.mark.parametrize("kind", ["legacy", "isolated"])
def test_interpreters_by_turns(tmp_path, kind):
    """One thread computes in this interpreter and in another, which it calls: each call makes a
    thread state that is not known before the next tick."""
    pytest.importorskip("_interpreters", reason="came with Python 3.13")
    found = measured(
        tmp_path,
        f"""
        import _interpreters
        from inside import *

        def here(): burn(0.012)
        other = _interpreters.create({kind!r})
        _interpreters.exec(other, {THERE!r})
        def call(): _interpreters.exec(other, "there()")
        def work():
            meter, end = Meter(), time.monotonic() + 4
            while time.monotonic() < end:
                meter.run(here)
                meter.run(call)
            return {{"meter": meter}}
        measure(work)
        """,
    )
    there = found.share("cpu-time", has("there"), lambda s: has("there")(s) or has("here")(s))
    least, most = true_share(found.truth["meter"]["used"], "call")
    assert there.is_within(least, most, 0.01), (there, least, most)
    call = found.share("cpu-time", lambda s: has("call")(s) and not has("there")(s))
    assert call.value < 0.05, call


def test_br_130_cpu_and_wall_mean_what_they_say(tmp_path):
    found = measured(
        tmp_path,
        """
        from inside import *

        def sleeper(): time.sleep(2)
        def spinner():
            end = time.monotonic() + 2
            while time.monotonic() < end:
                pass
        def timed(facts, function):
            meter = Meter()
            meter.run(function)
            facts[function.__name__] = meter.used[function.__name__]
        def work():
            facts, workers = {}, Workers()
            workers.start(timed, facts, sleeper)
            workers.start(timed, facts, spinner)
            workers.wait()
            return facts
        measure(work)
        """,
    )
    # The sleeper uses some CPU of its own, with its meter.
    assert found.total("cpu-time", has("sleeper")) < 0.002
    cpu = found.truth["spinner"][1]
    assert found.total("cpu-time", has("spinner")) == pytest.approx(cpu, rel=0.01, abs=0.01)
    for name in "sleeper", "spinner":
        wall = found.truth[name][0]
        total = found.total("wall-time", has(name))
        # Its beginning and its end are each seen late.
        assert total == pytest.approx(wall, rel=0.01, abs=2 * found.lateness), name
