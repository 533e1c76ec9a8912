"""Labels of the program: in force where they should be, and nowhere else."""

import collections
import json
import re
import sys
from pathlib import Path

import pytest
from agent import run

BURN = """
import asyncio, contextvars, json, sys, threading, time
import pyrometer.auto
from pyrometer import labels
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(300))
"""
SAMPLE_H = Path(__file__).parents[2] / "src/model/sample.h"
OURS = set(re.findall(r'    X\([A-Z_]+, "([^"]+)", [01], ', SAMPLE_H.read_text()))
OURS.add("end_timestamp_ns")


def own(sample):
    return {key: text for key, text in sample.labels.items() if key not in OURS}


def cpu(done, *functions):
    """CPU seconds by the program's labels and the first of `functions` in the stack."""
    sums = collections.Counter()
    for sample in done.samples():
        names = {name for name, _, _ in sample.stack}
        function = next((name for name in functions if name in names), "")
        sums[json.dumps(own(sample), sort_keys=True), function] += sample.values["cpu-time"] / 1e9
    return sums


def labelled(**texts):
    return json.dumps(texts, sort_keys=True)


def good(done):
    assert (done.code, done.err) == (0, ""), done.err
    return done


def test_blocks_nest_and_end(tmp_path):
    done = good(
        run(
            tmp_path,
            BURN
            + """
def outer(): burn(0.4)
def inner(): burn(0.4)
def plain(): burn(0.4)
with labels(route="/cart", tenant=7):
    outer()
    with labels(tenant=None, step="paymént"):
        inner()
        print(json.dumps(labels.current(), sort_keys=True))
    print(json.dumps(labels.current(), sort_keys=True))
plain()
print(labels.current())
try:
    with labels(route="/broken"):
        1 / 0
except ZeroDivisionError:
    print(labels.current())
""",
        )
    )
    assert done.out.splitlines() == [
        labelled(route="/cart", step="paymént"),
        labelled(route="/cart", tenant="7"),
        "{}",
        "{}",
    ]
    sums = cpu(done, "outer", "inner", "plain")
    for key in (
        (labelled(route="/cart", tenant="7"), "outer"),
        (labelled(route="/cart", step="paymént"), "inner"),
        (labelled(), "plain"),
    ):
        assert 0.33 < sums[key] < 0.47, sums
    # The instant of a change may fall between two ticks; a function is seen under its own labels.
    wrong = sum(
        value
        for (text, function), value in sums.items()
        if function
        and (text, function)
        not in {
            (labelled(route="/cart", tenant="7"), "outer"),
            (labelled(route="/cart", step="paymént"), "inner"),
            (labelled(), "plain"),
        }
    )
    assert wrong < 0.01, sums


def test_br_093_two_coroutines_on_one_thread_and_two_threads(tmp_path):
    """Labels follow the context, not the thread."""
    done = good(
        run(
            tmp_path,
            BURN
            + """
async def coroutine(name, parts):
    with labels(task=name):
        for _ in range(parts):
            burn(0.01)
            await asyncio.sleep(0)
@labels(task="decorated")
async def decorated():
    for _ in range(30):
        burn(0.01)
        await asyncio.sleep(0)
async def nothing():
    for _ in range(30):
        burn(0.01)
        await asyncio.sleep(0)
async def child():
    burn(0.3)
async def main():
    with labels(parent="main"):
        started = asyncio.create_task(child())
    await asyncio.gather(coroutine("a", 60), coroutine("b", 30), decorated(), nothing(), started)
asyncio.run(main())
def thread(name, seconds):
    with labels(thread=name):
        burn(seconds)
threads = [threading.Thread(target=thread, args=pair) for pair in (("x", 0.4), ("y", 0.2))]
with labels(not_of="threads"):
    for one in threads: one.start()
for one in threads: one.join()
print(labels.current())
""",
        )
    )
    assert done.out == "{}\n"
    sums = cpu(done, "coroutine", "decorated", "nothing", "child", "thread")
    expected = {
        (labelled(task="a"), "coroutine"): 0.6,
        (labelled(task="b"), "coroutine"): 0.3,
        (labelled(task="decorated"), "decorated"): 0.3,
        (labelled(), "nothing"): 0.3,
        (labelled(parent="main"), "child"): 0.3,
        (labelled(thread="x"), "thread"): 0.4,
        (labelled(thread="y"), "thread"): 0.2,
    }
    for key, seconds in expected.items():
        assert abs(sums[key] - seconds) < 0.1 + 0.3 * seconds, (key, sums)
    wrong = sum(value for key, value in sums.items() if key[1] and key not in expected)
    assert wrong < 0.02, sums


def test_br_130_labels_that_change_every_millisecond(tmp_path):
    """A stack has the labels that were in force when it was copied, never those that follow."""
    done = good(
        run(
            tmp_path,
            BURN
            + """
def even():
    end = time.perf_counter() + 0.001
    while time.perf_counter() < end: sum(range(20))
def odd():
    end = time.perf_counter() + 0.001
    while time.perf_counter() < end: sum(range(20))
end = time.perf_counter() + 2
while time.perf_counter() < end:
    with labels(which="even"): even()
    with labels(which="odd"): odd()
import os
print(os.getpid())
""",
            PYROMETER_SAMPLING_INTERVAL="2ms",
            PYROMETER_OVERHEAD_PCT="100",
        )
    )
    right = wrong = 0
    for sample in done.samples():
        names = {name for name, _, _ in sample.stack} & {"even", "odd"}
        count = sample.values["cpu-samples"]
        if names and count:
            if own(sample) == {"which": names.pop()}:
                right += count
            else:
                wrong += count
    assert right > 50
    assert wrong == 0, (right, wrong)


def test_generators_and_interleaved_blocks(tmp_path):
    done = good(
        run(
            tmp_path,
            BURN
            + """
@labels(by="generator")
def produce():
    try:
        for _ in range(20):
            burn(0.01)
            sent = yield 1
    finally:
        print("finally", labels.current())
def consume():
    for _ in produce():
        burn(0.01)
with labels(by="consumer"):
    consume()
generator = produce()
next(generator)
generator.close()
generator = produce()
next(generator)
try:
    generator.throw(KeyError("k"))
except KeyError as error:
    print("thrown", error.args)
@labels(by="echo")
def echo():
    got = yield "first"
    while got is not None:
        got = yield (got, labels.current())
    return "returned"
generator = echo()
print(next(generator), generator.send("hello"), labels.current())
try:
    generator.send(None)
except StopIteration as end:
    print(end.value)
async def async_main():
    @labels(by="async generator")
    async def produce():
        for number in range(3):
            await asyncio.sleep(0)
            yield number, labels.current()
    print([pair async for pair in produce()], labels.current())
    stream = produce()
    await stream.__anext__()
    try:
        await stream.athrow(ValueError("v"))
    except ValueError as error:
        print("thrown", error.args)
    stream = produce()
    await stream.__anext__()
    await stream.aclose()
asyncio.run(async_main())
# Blocks that end in another order than they began.
def block(name):
    with labels(**{name: 1}):
        yield
first, second = block("a"), block("b")
next(first), next(second)
print(labels.current())
first.close()
print(labels.current())
second.close()
print(labels.current())
again = labels(same=1)
with again:
    with again:
        pass
    print(labels.current())
print(labels.current())
again.__exit__(None, None, None)
import inspect
assert inspect.isgeneratorfunction(echo) and echo.__name__ == "echo"
""",
        )
    )
    assert done.out.splitlines() == [
        "finally {'by': 'generator'}",
        "finally {'by': 'generator'}",
        "finally {'by': 'generator'}",
        "thrown ('k',)",
        "first ('hello', {'by': 'echo'}) {}",
        "returned",
        "[(0, {'by': 'async generator'}), (1, {'by': 'async generator'}), "
        "(2, {'by': 'async generator'})] {}",
        "thrown ('v',)",
        "{'a': '1', 'b': '1'}",
        "{'b': '1'}",
        "{}",
        "{'same': '1'}",
        "{}",
    ]
    sums = cpu(done, "produce", "consume")
    assert 0.1 < sums[labelled(by="generator"), "produce"] < 0.32, sums
    assert 0.1 < sums[labelled(by="consumer"), "consume"] < 0.32, sums


def test_executors_and_copied_contexts_carry_them(tmp_path):
    done = good(
        run(
            tmp_path,
            BURN
            + """
def pooled(): burn(0.3); return labels.current()
with labels(early="yes"):
    from concurrent.futures import ThreadPoolExecutor
    pool = ThreadPoolExecutor(1)
    print(pool.submit(pooled).result())
print(pool.submit(labels.current).result())
def fails(): raise KeyError(labels.current()["who"])
with labels(who="caller"):
    print(list(pool.map(lambda _: labels.current(), range(2))))
    print(repr(pool.submit(fails).exception()))
    print(type(pool.submit(5).exception()).__name__)
print(pool.submit(labels.current).result())
async def main():
    with labels(who="loop"):
        await asyncio.to_thread(burn, 0.2)
        loop = asyncio.get_running_loop()
        print(await loop.run_in_executor(None, labels.current))
        print(await loop.run_in_executor(pool, labels.current))
asyncio.run(main())
with labels(who="copy"):
    context = contextvars.copy_context()
thread = threading.Thread(target=context.run, args=(burn, 0.2))
thread.start(); thread.join()
with labels(who="spawner"):
    import multiprocessing
    process = multiprocessing.get_context("fork").Process(
        target=lambda: print(labels.current(), flush=True))
    process.start(); process.join()
import os, warnings
warnings.simplefilter("ignore")  # of a fork with threads
with labels(who="forker"):
    if os.fork() == 0:
        print(labels.current(), flush=True)
        os._exit(0)
    os.wait()
""",
            PYROMETER_SAMPLING_INTERVAL="5ms",
        )
    )
    assert done.out.splitlines() == [
        "{'early': 'yes'}",
        "{}",
        "[{'who': 'caller'}, {'who': 'caller'}]",
        "KeyError('caller')",
        "TypeError",
        "{}",
        "{'who': 'loop'}",
        "{'who': 'loop'}",
        "{}",
        "{'who': 'forker'}",
    ]
    sums = cpu(done, "pooled", "burn")
    assert 0.25 < sums[labelled(early="yes"), "pooled"] < 0.35, sums
    assert 0.15 < sums[labelled(who="loop"), "burn"] < 0.25, sums
    assert 0.15 < sums[labelled(who="copy"), "burn"] < 0.25, sums


def test_contexts_of_every_shape(tmp_path):
    """The sampler finds the labels among any number of context variables."""
    done = good(
        run(
            tmp_path,
            BURN
            + """
def shaped(count):
    others = [contextvars.ContextVar(f"v{n}") for n in range(count)]
    for variable in others[: count // 2]: variable.set(1)
    with labels(others=count):
        for variable in others[count // 2 :]: variable.set(2)
        burn(0.1)
for count in (0, 1, 2, 8, 15, 16, 17, 33, 200, 3000):
    contextvars.Context().run(shaped, count)
""",
        )
    )
    sums = cpu(done, "burn")
    for count in (0, 1, 2, 8, 15, 16, 17, 33, 200, 3000):
        # What a tick finds used before a change goes to the stack after it.
        assert 0.02 < sums[labelled(others=str(count)), "burn"] < 0.3, sums
    assert sums[labelled(), "burn"] < 0.1, sums


def test_bounds_and_odd_values(tmp_path):
    done = good(
        run(
            tmp_path,
            BURN
            + """
class Broken:
    def __str__(self): raise RuntimeError("no text")
many = {f"k{n:02}": "v" * 500 for n in range(40)}
odd = {"state": "ours", "thread name": "ours too", "": "no key", "broken": Broken(),
       "none": None, "empty": "", "lines": "a\\x1fb\\x1ec\\nd", "lone": "\\ud800",
       "k" * 100: 1, "ümlaut": "ü" * 100, "number": 1.5, "flag": True, "raw": b"x"}
with labels(**many): burn(0.1); print(len(labels.current()))
with labels(**odd): burn(0.1)
with labels(a=1):
    with labels(**many): print(len(labels.current()), labels.current()["a"])
try:
    labels("positional")
except TypeError as error:
    print(error)
deep = labels(deep=1)
for _ in range(100000): deep.__enter__()
for _ in range(100000): deep.__exit__(None, None, None)
print(labels.current())
for _ in range(100000): labels(other=1).__enter__()
contextvars.copy_context()
""",
        )
    )
    assert done.out.splitlines() == [
        "16",
        "16 1",
        'labels are keywords: labels(route="/cart")',
        "{}",
    ]
    found = {json.dumps(own(sample), sort_keys=True) for sample in done.samples()}
    many = [json.loads(text) for text in found if "k00" in text]
    assert many
    for texts in many:  # and with the outer label, where there is one
        assert len(texts) == 16 and set(texts.values()) <= {"v" * 128, "1"}, texts
    (odd,) = [json.loads(text) for text in found if "number" in text]
    assert odd == {
        "label.state": "ours",
        "label.thread name": "ours too",
        "lines": "a b c d",
        "lone": "?",
        "k" * 64: "1",
        "ümlaut": "ü" * 64,
        "number": "1.5",
        "flag": "True",
        "raw": "b'x'",
    }


@pytest.mark.parametrize("enabled", ["false", "true"])
def test_without_a_running_profiler(tmp_path, enabled):
    """Switched off they are nothing at all; not started yet, they are there when it starts."""
    done = good(
        run(
            tmp_path,
            """
import asyncio, sys
from pyrometer import Profiler, labels
@labels(a=1)
def function(): return labels.current()
@labels(a=1)
async def coroutine(): return labels.current()
with labels(b=2) as entered:
    print(function(), asyncio.run(coroutine()), labels.current())
print("pyrometer._native" in sys.modules, type(entered).__mro__[1].__name__)
profiler = Profiler()
with labels(before="start"):
    profiler.start()
    import time
    end = time.thread_time() + 0.2
    while time.thread_time() < end: sum(range(300))
profiler.stop()
""",
            PYROMETER_ENABLED=enabled,
        )
    )
    if enabled == "false":
        assert done.out == "{} {} {}\nFalse _Nothing\n"
        assert not done.files()
    else:
        assert done.out.startswith(
            "{'a': '1', 'b': '2'} {'a': '1', 'b': '2'} {'b': '2'}\nTrue Labels"
        )
        assert (
            sum(
                sample.values["cpu-time"]
                for sample in done.samples()
                if own(sample) == {"before": "start"}
            )
            > 0.1e9
        )


def test_many_threads_that_change_labels(tmp_path):
    """Sets die and are reused while they are read: no label may come out that was never made."""
    done = good(
        run(
            tmp_path,
            BURN
            + """
stop = time.monotonic() + 2
def work(name):
    number = 0
    while time.monotonic() < stop:
        number += 1
        with labels(worker=name, number=number % 97, filler="x" * (number % 60)):
            with labels(inner=name):
                sum(range(50))
threads = [threading.Thread(target=work, args=(f"w{n}",), name=f"w{n}") for n in range(8)]
for one in threads: one.start()
for one in threads: one.join()
print(json.dumps(pyrometer.Profiler().status()["tick"]))
""",
            PYROMETER_SAMPLING_INTERVAL="2ms",
            PYROMETER_OVERHEAD_PCT="100",
        )
    )
    seen = 0
    for sample in done.samples():
        texts = own(sample)
        if not texts:
            continue
        seen += 1
        name = sample.labels["thread name"]
        if not name.isdigit():  # it has a name already
            assert {texts.get("worker", name), texts.get("inner", name)} == {name}, texts
        assert texts.keys() <= {"worker", "number", "filler", "inner"}, texts
        assert int(texts.get("number", "0")) < 97 and set(texts.get("filler", "x")) == {"x"}, texts
    assert seen > 50
    tick = json.loads(done.out)
    assert tick["labels_unread"] < tick["visits"] / 10, tick


if sys.version_info >= (3, 12):

    def test_samples_of_hooks_have_them(tmp_path):
        done = good(
            run(
                tmp_path,
                BURN
                + """
def fail(times):
    for _ in range(times):
        try:
            raise KeyError
        except KeyError:
            pass
with labels(route="/a"):
    fail(20000)
with labels(route="/b"):
    fail(10000)
fail(10000)
""",
            )
        )
        raised = collections.Counter()
        for sample in done.samples():
            raised[sample.labels.get("route")] += sample.values["exception-samples"]
        for route, count in (("/a", 20000), ("/b", 10000), (None, 10000)):
            assert abs(raised[route] - count) < 0.35 * count, raised

    def test_a_sub_interpreter_has_none(tmp_path):
        done = good(
            run(
                tmp_path,
                BURN
                + """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = "import time\\nend = time.thread_time() + 0.2\\nwhile time.thread_time() < end: pass"
with labels(where="main"):
    other = interpreters.create()
    runner = getattr(interpreters, "exec", None) or interpreters.run_string
    runner(other, code)
    burn(0.2)
    interpreters.destroy(other)
""",
            )
        )
        sums = cpu(done, "burn")
        assert 0.15 < sums[labelled(where="main"), "burn"] < 0.25, sums


REQUESTS = """
from concurrent.futures import ThreadPoolExecutor
def handler(): burn(0.2)
def after(): burn(0.5)
def request(route):
    with labels(route=route, resource=None):
        handler()
def serve(*routes):
    for route in routes: request(route); after()
ThreadPoolExecutor(1).submit(serve, "/a", None, "/b").result()
"""


def test_br_131_nothing_is_charged_to_a_request_that_is_over(tmp_path):
    """Work of the same thread after its end and before the next one; None is no label."""
    sums = cpu(good(run(tmp_path, BURN + REQUESTS)), "handler", "after")
    for texts in ({"route": "/a"}, {}, {"route": "/b"}):
        assert 0.15 < sums[labelled(**texts), "handler"] < 0.25, sums
    assert 1.4 < sums[labelled(), "after"] < 1.6, sums
    wrong = sum(value for (text, name), value in sums.items() if name == "after" and text != "{}")
    assert wrong < 0.01, sums
