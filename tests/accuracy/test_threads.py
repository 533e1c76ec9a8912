"""Every thread is seen, under its name, present and future ones; wall time is the clock's."""

import pytest
from truth import FINE, measured, of_thread


def test_br_025_all_threads_under_their_names(tmp_path):
    """Threads before and after the start, renamed ones, ones that `threading` does not know."""
    found = measured(
        tmp_path,
        """
        import _thread
        from inside import *

        lives = {}  # name -> native id, first and last moment
        def rest(name, seconds):
            start = time.monotonic()
            time.sleep(seconds)
            lives[name] = threading.get_native_id(), start, time.monotonic()
        def foreign(): rest("foreign", 1)
        early = threading.Thread(target=rest, args=("early", 2.5), name="early")
        early.start()
        def work():
            begin = time.monotonic()
            for turn in range(3):
                names = [f"late {turn} {i}" for i in range(20)]
                threads = [
                    threading.Thread(target=rest, args=(name, 0.5), name=name) for name in names
                ]
                for thread in threads:
                    thread.start()
                if turn == 0:
                    _thread.start_new_thread(foreign, ())
                for thread in threads:
                    thread.join()
            early.join()
            return {
                "lives": {
                    name: (native_id, end - max(start, begin))
                    for name, (native_id, start, end) in lives.items()
                }
            }
        measure(work)
        """,
    )
    lives = found.truth["lives"]
    assert len(lives) == 62
    for name, (native_id, length) in lives.items():
        mine = [s for s in found.samples if of_thread(native_id)(s)]
        if name != "foreign":
            mine = [s for s in mine if s.labels["thread name"] == name]
        assert mine, f"thread {name!r} was never seen"
        total = sum(s.values["wall-time"] for s in mine) / 1e9
        # Seen from the first tick in its life to the first one after it.
        assert total == pytest.approx(length, rel=0.01, abs=found.lateness), name
    known = {s.labels["thread name"] for s in found.samples if "thread name" in s.labels}
    assert {"MainThread"} | (lives.keys() - {"foreign"}) <= known


@pytest.mark.parametrize("settings", [{}, FINE])
def test_wall_time_is_the_clock(tmp_path, settings):
    """Each thread that lives through the window has its whole length, whatever it does."""
    found = measured(
        tmp_path,
        """
        import queue
        from inside import *

        def until(step):
            while time.monotonic() < end:
                step()
        def idle(): event.wait()
        def napping(): until(lambda: time.sleep(0.003))
        def bursts(): until(lambda: (burn(0.002), time.sleep(0.02)))
        def computing(): until(lambda: burn(0.01))
        event, end, ids = threading.Event(), time.monotonic() + 3.5, {}
        for function in idle, napping, bursts, computing:
            thread = threading.Thread(target=function, daemon=True)
            thread.start()
            ids[function.__name__] = thread.native_id
        def work():
            time.sleep(3)
            return {"ids": ids}
        measure(work)
        """,
        **settings,
    )
    least, most = found.truth["wall"]
    for name, native_id in found.truth["ids"].items():
        total = found.total("wall-time", of_thread(native_id))
        assert least * 0.99 <= total <= most * 1.01, name
