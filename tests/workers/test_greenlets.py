"""Programs of gevent's greenlets, which switch stacks under whoever looks at them."""

import subprocess
import sys

import pytest
from harness import pprof


def run(place, source, **settings):
    program = place.folder / "program.py"
    program.write_text(source)
    done = subprocess.run(
        [sys.executable, program],
        cwd=place.folder,
        env=place.environment(**settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    files = sorted((place.folder / "out").glob("app.*.pprof"))
    return done.stdout, [pprof.parse(file.read_bytes()) for file in files]


SERVER = """
from gevent import monkey; monkey.patch_all()
import gevent, gevent.pool, gevent.server
from pyrometer import Profiler

def answer(stream, peer):
    kept = []
    while data := stream.recv(100):
        kept.append(bytearray(2000))
        descend(10, lambda: stream.sendall(data))
def descend(depth, then):
    return then() if depth == 0 else descend(depth - 1, then)
def ask(_):
    with gevent.socket.create_connection(server.address) as stream:
        for _ in range(4):
            stream.sendall(b"question")
            assert stream.recv(100) == b"question"
def serve():
    for _ in pool.imap_unordered(ask, range(250)): pass  # 1,000 requests

server, pool = gevent.server.StreamServer(("127.0.0.1", 0), answer), gevent.pool.Pool(50)
server.start()
profiler = Profiler()
for _ in range(3):
    profiler.start()
    serve()
    profiler.stop()
    serve()
"""


@pytest.mark.parametrize("native", ["false", "true"])
def test_br_054_switches_after_a_stop_and_a_start(place, native):
    _, profiles = run(
        place,
        SERVER,
        PYROMETER_HEAP_SAMPLE_SIZE="16KiB",
        PYROMETER_NATIVE_HEAP_ENABLED=native,
    )
    assert len(profiles) == 3
    for profile in profiles:
        made = [s for s in profile.samples if s.values.get("alloc-space", 0) > 0]
        stacks = [[name for name, _, _ in sample.stack] for sample in made]
        stacks = [stack for stack in stacks if stack[:1] == ["answer"]]
        assert stacks
        # A greenlet's stack is its own: no caller of the one that it was switched from.
        assert not any({"ask", "serve", "<module>"} & set(stack) for stack in stacks)


IDLE = """
from gevent import monkey; monkey.patch_all()
import gc, gevent, time
from pyrometer import Profiler

def resident():
    rows = open("/proc/self/smaps_rollup").read().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("Private_Dirty")) * 1024
profiler = Profiler()
profiler.start()
idle = [gevent.spawn(gevent.sleep, 3600) for _ in range(50)]
seen = []
for _ in range(2):
    gevent.sleep(3)
    profiler.flush(30)
    gc.collect()
    seen.append(resident())
print(seen[1] - seen[0])
gevent.killall(idle)
profiler.stop()
"""


def test_br_043_idle_greenlets(place):
    """Looked at ten times as often as usual: the process stays as it is."""
    out, _ = run(
        place,
        IDLE,
        PYROMETER_SAMPLING_INTERVAL="1ms",
        PYROMETER_OVERHEAD_PCT="100",
        PYROMETER_UPLOAD_INTERVAL="1s",
    )
    assert int(out) < 4 << 20
