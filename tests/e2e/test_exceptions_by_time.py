"""What is being handled, by time: all there is of exceptions on a Python without sys.monitoring."""

import sys

from agent import run


def test_the_label_fills_the_type_and_says_so(tmp_path):
    done = run(
        tmp_path,
        """
import time
import pyrometer
profiler = pyrometer.Profiler(upload_interval="1h")
profiler.start()
class Trouble(Exception): pass
def handles():
    try: raise Trouble
    except Trouble:
        end = time.thread_time() + 0.5
        while time.thread_time() < end: pass
handles()
print(profiler.status()["collectors"]["exception"])
profiler.stop()
""",
    )
    assert (done.code, done.err) == (0, "")
    told = {
        s.labels["handling exception"] for s in done.samples() if "handling exception" in s.labels
    }
    assert any(name.endswith("Trouble") for name in told)
    if sys.version_info >= (3, 12):
        assert done.out == "on\n"
    else:
        assert "no sys.monitoring" in done.out and "`handling exception`" in done.out
        assert not any("exception-samples" in s.values for s in done.samples())
