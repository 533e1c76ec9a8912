"""Requests: blocks with a label `endpoint`, as the windows' documents count them."""

import collections
import json

from agent import run


def requests(done):
    """What the documents of all processes count, and the number of documents."""
    sums = collections.Counter()
    for file in sorted(done.folder.glob("*.json")):
        for endpoint, count in json.loads(file.read_text()).get("requests", {}).items():
            sums[file.name.split(".")[1], endpoint] += count
    return sums


def test_blocks_with_an_endpoint_are_requests(tmp_path):
    """Each counts once, by its outermost block, whatever shape the handler has; generators are one
    however often they are entered again; a child of a fork does not repeat its parent's."""
    done = run(
        tmp_path,
        """
import asyncio, os, sys, threading, time, warnings
import pyrometer.auto
from pyrometer import labels
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(300))
@labels(endpoint="/call", tenant=1)
def call():
    with labels(endpoint="/inner"), labels(step="more"):
        pass
@labels(endpoint="/coroutine")
async def coroutine():
    await asyncio.sleep(0)
@labels(endpoint="/generator")
def generator(): yield from range(5)
@labels(endpoint="/asynchronous")
async def asynchronous():
    for number in range(5):
        yield number
async def main():
    await asyncio.gather(*(coroutine() for _ in range(20)))
    for _ in range(3):
        assert [number async for number in asynchronous()] == list(range(5))
for _ in range(1000):
    call()
for _ in range(7):
    assert list(generator()) == list(range(5))
asyncio.run(main())
with labels(endpoint="/outer"):
    with labels(endpoint=None):
        call()  # no request is being served here: one of its own
with labels(tenant=2):
    pass
threads = [threading.Thread(target=lambda: [call() for _ in range(100)]) for _ in range(4)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
warnings.simplefilter("ignore")  # of a fork with threads
if os.fork() == 0:
    burn(0.1)
    for _ in range(3):
        call()
    burn(0.1)
    sys.exit()
os.wait()
print(os.getpid())
""",
    )
    assert (done.code, done.err) == (0, ""), done.err
    counts = requests(done)
    parent = done.out.strip()
    assert {endpoint: count for (pid, endpoint), count in counts.items() if pid == parent} == {
        "/call": 1401,
        "/coroutine": 20,
        "/generator": 7,
        "/asynchronous": 3,
        "/outer": 1,
    }
    # The child's profiler starts a little later than the child.
    assert sum(count for (pid, _), count in counts.items() if pid != parent) <= 3
