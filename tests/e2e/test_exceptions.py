"""What is raised, where, how often, and whether it was caught."""

import sys

import pytest
from agent import run

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="sees raises by sys.monitoring, which came with 3.12"
)

START = """
import pyrometer
profiler = pyrometer.Profiler(upload_interval="1h")
profiler.start()
"""


def raised(done):
    """The samples of exceptions, by type; None: without a stack."""
    by_type = {}
    for sample in done.samples():
        if sample.values["exception-samples"]:
            by_type.setdefault(sample.labels.get("exception type"), []).append(sample)
    return by_type


def total(samples):
    return sum(sample.values["exception-samples"] for sample in samples)


def test_totals_are_exact_and_shares_true(tmp_path):
    done = run(
        tmp_path,
        START
        + """
def often():
    try: raise KeyError(1)
    except KeyError: pass
def seldom():
    try: int("x")
    except ValueError: pass
for _ in range(25000):
    often(); often(); often(); seldom()
profiler.stop()
""",
    )
    assert (done.code, done.err) == (0, "")
    by_type = raised(done)
    everything = [sample for samples in by_type.values() for sample in samples]
    assert total(everything) == 100_000
    # A share that is estimated from some 300 weighted samples: five standard deviations.
    assert 0.55 < total(by_type["KeyError"]) / 100_000 < 0.95
    for sample in by_type["KeyError"]:
        assert [name for name, _, _ in sample.stack] == ["often", "<module>"]
        assert sample.stack[0][2] == 7
    for sample in by_type["ValueError"]:
        assert [name for name, _, _ in sample.stack] == ["seldom", "<module>"]


def test_br_077_the_stack_is_that_of_the_raise(tmp_path):
    done = run(
        tmp_path,
        START
        + """
class Trouble(Exception): pass
def library(depth):
    if depth == 0:
        raise Trouble
    library(depth - 1)
def handler():
    try: library(29)
    except Trouble: pass
for _ in range(10): handler()
profiler.stop()
""",
    )
    samples = raised(done)["__main__.Trouble"]
    assert total(samples) == 10  # once each, not once a frame; few are all seen
    for sample in samples:
        assert [name for name, _, _ in sample.stack] == ["library"] * 30 + ["handler", "<module>"]
        assert sample.labels["handled"] == "yes"
        assert sample.labels["caught at"] == "program.py:12:handler"
        assert sample.labels["thread name"]


def test_who_catches_it(tmp_path):
    done = run(
        tmp_path,
        START
        + """
import contextlib, threading
class A(Exception): pass
class B(Exception): pass
class C(Exception): pass
class D(Exception): pass
class E(Exception): pass
class Gone(AttributeError): pass
class Slow:
    @property
    def missing(self): raise Gone
def through_with():
    with contextlib.nullcontext():
        raise A
def catches():
    try: through_with()
    except A: pass
catches()
hasattr(Slow(), "missing")  # C swallows it
def worker(): raise B
threading.excepthook = lambda *_: None
thread = threading.Thread(target=worker)
thread.start(); thread.join()
def generator():
    yield 1
    raise C
try: list(generator())
except C: pass
def tidies():
    try: raise D
    finally: x = 1
try: tidies()
except D: pass
def again():
    try: raise E
    except E as error: caught = error
    try: raise caught
    except E: pass
again()
profiler.stop()
""",
    )
    by_type = raised(done)

    def only(name):
        (sample,) = by_type[name]
        assert sample.values["exception-samples"] == 1, name
        return sample.labels

    assert only("__main__.A")["handled"] == "yes"
    assert only("__main__.A")["caught at"].endswith(":catches")
    assert only("__main__.Gone")["handled"] == "in C"
    assert only("__main__.B")["handled"] == "no"
    assert only("__main__.C")["caught at"].endswith(":<module>")
    assert only("__main__.D")["caught at"].endswith(":<module>")
    assert only("__main__.E")["caught at"].endswith(":again")  # raised again: counted once


WAYS = """
class End:
    def __init__(self, swallows): self.swallows = swallows
    def __enter__(self): return self
    def __exit__(self, *_): return self.swallows
class Ways:
    @property
    def other_clause(self):
        try: raise Other
        except OSError: pass
    @property
    def tidy(self):
        try: raise Tidy
        finally: self.x = 1
    @property
    def bare(self):
        try: raise Bare
        except Bare: raise
    @property
    def inside_with(self):
        with End(False): raise InWith
    @property
    def star(self):
        try: raise Star
        except* OSError: pass
    @property
    def named(self):
        try: raise Named
        except Named as error: raise error
    @property
    def two_levels(self):
        try: self.deeper()
        except OSError: pass
    def deeper(self):
        try: raise Deeper
        except OSError: pass
    @property
    def made_by_a_generator(self):
        def make():
            try: yield 1; raise Generated
            except OSError: pass
        return list(make())
"""


def test_what_a_clause_lets_go_on_into_c_was_not_caught_there(tmp_path):
    """`except` of another type, `finally`, `with`, a bare `raise`: hasattr, in C, swallows it."""
    types = ("Other", "Tidy", "Bare", "InWith", "Star", "Named", "Deeper", "Generated")
    done = run(
        tmp_path,
        "".join(f"class {name}(AttributeError): pass\n" for name in types)
        + WAYS
        + START
        + """
for name in vars(Ways):
    if isinstance(vars(Ways)[name], property): assert not hasattr(Ways(), name)
profiler.stop()
""",
    )
    assert (done.code, done.err) == (0, "")
    by_type = raised(done)
    for name in types:
        told = {sample.labels["handled"] for sample in by_type[f"__main__.{name}"]}
        assert told == {"in C"}, (name, told)


def test_what_a_clause_catches_was_caught_there(tmp_path):
    done = run(
        tmp_path,
        WAYS
        + START
        + """
class Swallowed(Exception): pass
class Second(Exception): pass
class Outer(Exception): pass
def swallows():
    with End(True): raise Swallowed
def second_clause():
    try: raise Second
    except OSError: pass
    except Second: pass
def outer():
    try:
        with End(False):
            try: raise Outer
            except OSError: pass
            finally: x = 1
    except Outer: pass
swallows(); second_clause(); outer()
with End(True): raise Swallowed
profiler.stop()
""",
    )
    assert (done.code, done.err) == (0, "")
    by_type = raised(done)
    for name in ("Swallowed", "Second", "Outer"):
        for sample in by_type[f"__main__.{name}"]:
            assert sample.labels["handled"] == "yes", name
            assert sample.labels["caught at"].endswith(":" + sample.stack[0][0])


def test_an_import_that_fails_is_one_raise(tmp_path):
    """CPython takes importlib's frames out of its traceback on the way."""
    for name in ("with_its_own", "imports_another"):
        folder = tmp_path / name
        folder.mkdir()
    (tmp_path / "with_its_own" / "raises.py").write_text("raise ImportError('mine')\n")
    (tmp_path / "imports_another" / "other.py").write_text("import not_there\n")
    done = run(
        tmp_path,
        """
import sys
sys.path += ["with_its_own", "imports_another"]
try: import raises
except ImportError: pass
"""
        + START
        + """
def optional():
    try: import not_there
    except ImportError: pass
def named():
    try: from abc import not_there
    except ImportError: pass
def own():
    try: import raises
    except ImportError: pass
def inner():
    try: import other
    except ImportError: pass
def relative():
    try: from . import nothing
    except ImportError: pass
for function in optional, named, own, inner, relative: function(); function()
profiler.stop()
""",
        PYROMETER_EXCEPTION_SAMPLING_INTERVAL="1",
    )
    assert (done.code, done.err) == (0, "")
    by_type = raised(done)
    found = {}
    for sample in by_type["ModuleNotFoundError"] + by_type["ImportError"]:
        names = [name for name, _, _ in sample.stack]
        for function in ("optional", "named", "own", "inner", "relative"):
            if function in names:
                found[function] = found.get(function, 0) + total([sample])
                assert sample.labels["handled"] == "yes", function
                assert sample.labels["caught at"].endswith(":" + function)
    assert found == dict.fromkeys(("optional", "named", "own", "inner", "relative"), 2)


def test_control_flow_is_left_out(tmp_path):
    done = run(
        tmp_path,
        START
        + """
import asyncio
for _ in range(1000):
    for _ in iter([1, 2]): pass
    it = iter([])
    try: next(it)
    except StopIteration: pass
    def gen(): yield 1
    g = gen(); next(g); g.close()
    async def agen():
        yield 1
    async def main():
        async for _ in agen(): pass
for _ in range(3): asyncio.run(main())
profiler.stop()
""",
    )
    assert not {"StopIteration", "GeneratorExit", "StopAsyncIteration"} & set(raised(done))


PERSONAL = (
    START
    + """
for _ in range(5):
    try: raise ValueError(7, "card 4111 " + "\\u00e9" * 200)
    except ValueError: pass
class Own(Exception):
    def __str__(self): print("asked"); return "own"
try: raise Own
except Own: pass
profiler.stop()
"""
)


def test_br_079_no_message_unless_asked_for(tmp_path):
    done = run(tmp_path, PERSONAL)
    assert raised(done)["ValueError"]
    (profile,) = done.profiles()
    assert "4111" not in repr(profile)


def test_messages_on_request(tmp_path):
    done = run(tmp_path, PERSONAL, PYROMETER_EXCEPTION_COLLECT_MESSAGE="1")
    (sample, *_) = raised(done)["ValueError"]
    assert sample.labels["exception message"] == "card 4111 " + "\u00e9" * 118
    assert "exception message" not in raised(done)["__main__.Own"][0].labels
    assert done.out == ""  # its own code was not asked


@pytest.mark.parametrize("first", [True, False])
def test_beside_other_tools(tmp_path, first):
    tools = """
import sys, cProfile
m = sys.monitoring
seen = []
m.use_tool_id(m.COVERAGE_ID, "coverage")
m.register_callback(m.COVERAGE_ID, m.events.RAISE, lambda code, at, error: seen.append(error))
m.set_events(m.COVERAGE_ID, m.events.RAISE)
m.use_tool_id(5, "torch")
traced = []
def trace(frame, event, argument):
    if event == "exception": traced.append(event)
    return trace
sys.settrace(trace)
profile = cProfile.Profile(); profile.enable()
"""
    done = run(
        tmp_path,
        (tools + START if first else START + tools.replace('m.use_tool_id(5, "torch")', ""))
        + """
def f():
    try: raise OSError
    except OSError: pass
for _ in range(50): f()
profile.disable(); sys.settrace(None)
hook = profiler.status()["exceptions"]["hook"]
profiler.stop()
assert len([e for e in seen if type(e) is OSError]) == 50, len(seen)
assert len(traced) >= 50
assert m.get_tool(5) == ("torch" if "tool 3" in hook else None)
assert m.get_tool(3) is m.get_tool(4) is None
print(hook)
""",
        PYROMETER_EXCEPTION_SAMPLING_INTERVAL="1",
    )
    assert (done.code, done.err) == (0, "")
    assert done.out == ("sys.monitoring, tool 3\n" if first else "sys.monitoring, tool 5\n")
    assert total(raised(done)["OSError"]) == 50


def test_no_tool_left(tmp_path):
    done = run(
        tmp_path,
        """
import sys, logging
logging.basicConfig()
for i in range(6): sys.monitoring.use_tool_id(i, f"tool {i}")
"""
        + START
        + """
try: raise OSError
except OSError: pass
print(profiler.status()["exceptions"]["hook"])
profiler.stop()
assert [sys.monitoring.get_tool(i) for i in range(6)] == [f"tool {i}" for i in range(6)]
""",
    )
    assert done.code == 0
    assert done.out == "sys.monitoring has no free tool id\n"
    assert done.err.count("exceptions are not profiled") == 1


def test_starts_stops_and_forks_while_raising(tmp_path):
    done = run(
        tmp_path,
        """
import os, threading, warnings, pyrometer
warnings.simplefilter("ignore", DeprecationWarning)
stop = False
def storm():
    while not stop:
        try: raise ValueError
        except ValueError: pass
threads = [threading.Thread(target=storm) for _ in range(3)]
for t in threads: t.start()
for i in range(30):
    profiler = pyrometer.Profiler(upload_interval="1h", exception_sampling_interval="1")
    profiler.start()
    if i % 10 == 0:
        pid = os.fork()
        if pid == 0:
            profiler.status()  # starts it now, not some ms later
            for _ in range(70):
                try: raise KeyError
                except KeyError: pass
            raise SystemExit(0)
        assert os.waitpid(pid, 0)[1] == 0
    profiler.stop(flush=i == 29)
stop = True
for t in threads: t.join()
import sys
assert sys.monitoring.get_tool(5) is None
""",
    )
    assert (done.code, done.err) == (0, "")
    assert raised(done)["ValueError"]
    assert raised(done).get("KeyError")


def test_br_080_a_storm_costs_few_samples(tmp_path):
    done = run(
        tmp_path,
        START
        + """
import time
end = time.monotonic() + 1.5
count = 0
d = {}
while time.monotonic() < end:
    for _ in range(1000):
        try: d[1]
        except KeyError: pass
    count += 1000
facts = profiler.status()["exceptions"]
profiler.stop()
print(count, facts["sampled"])
""",
    )
    count, sampled = map(int, done.out.split())
    assert total(s for samples in raised(done).values() for s in samples) == count
    assert sampled < 6000  # the interval grows: about a thousand a second


def test_switched_off(tmp_path):
    done = run(
        tmp_path,
        START
        + """
import sys
assert sys.monitoring.get_tool(5) is None
assert "exception" not in profiler.status()["collectors"]
profiler.stop()
""",
        PYROMETER_EXCEPTION_ENABLED="false",
    )
    assert (done.code, done.err) == (0, "")
    (profile,) = done.profiles()
    assert "exception-samples" not in dict(profile.types)


def test_br_032_another_tool_keeps_its_instruction_events(tmp_path):
    """Also one that asks for them inside a running function, while ours starts and stops."""
    source = """
import sys
m = sys.monitoring
seen = []
def watched(n):
    m.set_local_events(2, watched.__code__, m.events.INSTRUCTION)
    total = 0
    for i in range(n):
        try: raise KeyError(i)
        except KeyError: total += i
    m.set_local_events(2, watched.__code__, 0)
    return total
m.use_tool_id(2, "other")
m.register_callback(2, m.events.INSTRUCTION, lambda code, offset: seen.append(offset))
def look():
    seen.clear()
    watched(100)
    return list(seen)
"""
    done = run(
        tmp_path,
        source
        + """
alone = look()
assert len(alone) > 1000
"""
        + START
        + """
beside = look()
profiler.stop()
after = look()
print(beside == alone, after == alone, len(alone))
assert m.get_tool(2) == "other"
""",
        PYROMETER_EXCEPTION_SAMPLING_INTERVAL="1",
    )
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("True True "), done.out
    assert total(raised(done)["KeyError"]) == 100


@pytest.mark.parametrize("way", ["matches", "does not match", "is none"])
def test_what_ends_the_program_was_not_handled(tmp_path, way):
    clause = {"matches": "except Trouble: pass", "does not match": "except OSError: pass"}
    done = run(
        tmp_path,
        f"""
import pyrometer.auto
class Trouble(Exception): pass
def fails(): raise Trouble
try: fails()
{clause.get(way, "finally: pass")}
""",
    )
    (sample,) = raised(done)["__main__.Trouble"]
    assert done.code == (0 if way == "matches" else 1)
    assert sample.labels["handled"] == ("yes" if way == "matches" else "no")
    assert ("caught at" in sample.labels) == (way == "matches")
