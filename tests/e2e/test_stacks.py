"""What stands in the stacks of real programs."""

import re

import pytest
from agent import python_names, run

BURN = """
import time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(200):
            pass
        try:
            raise ValueError
        except ValueError:
            pass
"""


def test_br_012_leaf_first_for_every_type(tmp_path):
    done = run(
        tmp_path,
        BURN
        + """
def c(): burn(0.6)
def b(): c()
def a(): b()
def main(): a()
import pyrometer.auto
main()
""",
    )
    (profile,) = done.profiles()
    # What has a program of its own: memory, locks, the GIL and pauses for garbage.
    own = ("alloc-", "heap-", "lock-", "gil-", "gc-")
    types = [name for name, _ in profile.types if not name.startswith(own)]
    assert {"cpu-time", "wall-time"} <= set(types)
    for name in types:
        stacks = [python_names(s) for s in profile.samples if s.values[name]]
        stacks = [stack for stack in stacks if "burn" in stack]
        assert stacks, name
        for stack in stacks:
            assert stack == ["burn", "c", "b", "a", "main", "<module>"]


def test_br_021_eval_and_exec_have_names(tmp_path):
    done = run(
        tmp_path,
        BURN
        + """
import pyrometer.auto
source = '''

def made():
    burn(0.4)
made()
'''
exec(compile(source, "<dyn>", "exec"))
eval("[burn(0.4) for _ in range(1)]")
""",
    )
    frames = {frame for sample in done.samples() for frame in sample.stack}
    assert ("made", "<dyn>", 4) in frames
    assert ("<module>", "<dyn>", 5) in frames
    assert [f for f in frames if f[1] == "<string>" and f[2] == 1 and f[0]]
    assert not [f for f in frames if not f[0] or not (f[1] or f[0].startswith("<"))]


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_br_022_non_ascii_names_and_paths(tmp_path, locale):
    folder = tmp_path / "é"
    folder.mkdir()
    module = folder / "模块.py"
    module.write_text(
        "import time\ndef ñ():\n    end = time.time() + 1\n    while time.time() < end: pass\n",
        encoding="utf-8",
    )
    source = (
        f"import sys; sys.path.insert(0, {ascii(str(folder))})\n"
        "import pyrometer.auto, threading, importlib\n"
        'm = importlib.import_module("\\u6a21\\u5757")\n'
        'f = getattr(m, "\\u00f1")\n'
        't = threading.Thread(target=f, name="th\\u00e8me \\U0001f40d"); t.start(); t.join()'
    )
    done = run(tmp_path, source, LC_ALL=locale)
    assert done.code == 0, done.err
    found = [s for s in done.samples() if any(n == "ñ" and f == str(module) for n, f, _ in s.stack)]
    assert found
    # A thread has no name before threading has registered it: its first moments may go by its id.
    named = sum(s.values["wall-time"] for s in found if s.labels["thread name"] == "thème 🐍")
    assert named > 0.7 * sum(s.values["wall-time"] for s in found)
    assert not [s for s in found if not re.fullmatch("thème 🐍|[0-9]+", s.labels["thread name"])]


def test_br_022_code_without_lines(tmp_path):
    done = run(
        tmp_path,
        BURN
        + """
import pyrometer.auto
def plain(): burn(0.5)
plain.__code__ = plain.__code__.replace(co_linetable=b"")
plain()
""",
    )
    assert done.code == 0
    assert done.stacks("plain")


@pytest.mark.parametrize(("frames", "depth"), [(64, 1000), (10, 50), (599, 2000)])
def test_br_024_deep_recursion_is_cut_once(tmp_path, frames, depth):
    done = run(
        tmp_path,
        BURN
        + f"""
import sys
sys.setrecursionlimit({depth} + 100)
def down(n):
    if n == 0: burn(0.5)
    else: down(n - 1)
import pyrometer.auto
down({depth})
""",
        PYROMETER_MAX_FRAMES=str(frames),
    )
    assert done.code == 0
    stacks = done.stacks("burn")
    assert stacks
    for stack in stacks:
        assert len(stack) == frames + 1
        assert stack[-1].startswith("<") and stack[-1].endswith(" frames omitted>")
        assert sum("omitted" in name for name in stack) == 1
        # burn + down * (depth + 1) + <module>, and the C function at the leaf where one is known
        omitted = int(stack[-1].split()[0][1:])
        assert omitted + frames - (depth + 3) in (0, 1)


def test_br_025_threads_present_and_future(tmp_path):
    done = run(
        tmp_path,
        BURN
        + """
import threading, _thread
def before(): burn(1.2)
early = threading.Thread(target=before, name="early"); early.start()
import pyrometer.auto
late = [threading.Thread(target=burn, args=(0.6,), name=f"late {i}") for i in range(4)]
for thread in late: thread.start()
finished = _thread.allocate_lock(); finished.acquire()
def raw():
    burn(0.6); finished.release()
_thread.start_new_thread(raw, ())
for thread in [early, *late]: thread.join()
finished.acquire()
""",
    )
    names = {s.labels["thread name"] for s in done.samples() if "thread name" in s.labels}
    assert {"early", "late 0", "late 1", "late 2", "late 3", "MainThread"} <= names
    assert done.stacks("raw")
    for sample in done.samples():
        if any(name == "before" for name, _, _ in sample.stack):
            assert sample.labels["thread name"] == "early"


def test_the_main_thread_has_one_name(tmp_path):
    """Also before anything imports `threading`, which knows it."""
    done = run(
        tmp_path,
        """
import sys, time, pyrometer.auto
def burn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end: pass
def before(): burn(0.3)
def after(): burn(0.2)
assert "threading" not in sys.modules
before()
import threading
after()
""",
    )
    assert (done.code, done.err) == (0, "")
    for function in "before", "after":
        seen = [s for s in done.samples() if function in python_names(s)]
        names = {sample.labels["thread name"] for sample in seen}
        assert names == {"MainThread"}, (function, names)


def test_br_083_coroutines_in_order(tmp_path):
    done = run(
        tmp_path,
        BURN
        + """
import asyncio
async def e(): burn(0.6)
async def d(): await e()
async def c(): await d()
async def b(): await c()
async def a(): await b()
import pyrometer.auto
asyncio.run(a())
""",
    )
    stacks = [python_names(s) for s in done.samples()]
    stacks = [stack for stack in stacks if "burn" in stack]
    assert stacks
    for stack in stacks:
        assert stack[:6] == ["burn", "e", "d", "c", "b", "a"]
        assert stack[-1] == "<module>"
        for name in "abcde":
            assert stack.count(name) == 1


def test_generators_in_order(tmp_path):
    done = run(
        tmp_path,
        """
        import time, pyrometer.auto
        def inner(n):
            for i in range(n):
                for _ in range(20): pass  # else it moves in nearly every look
                yield i
        def outer(n): yield from inner(n)
        def consume(end):
            while time.perf_counter() < end:
                for _ in outer(3): pass
        def main(): consume(time.perf_counter() + 1)
        main()
        """,
    )
    stacks = [python_names(s) for s in done.samples() if s.values["cpu-time"]]
    stacks = [
        [name for name in stack if name != "<changing frames>"]
        for stack in stacks
        if "consume" in stack
    ]
    allowed = [
        ["consume", "main", "<module>"],
        ["outer", "consume", "main", "<module>"],
        ["inner", "outer", "consume", "main", "<module>"],
    ]
    assert stacks
    assert not [stack for stack in stacks if stack not in allowed]
    assert allowed[2] in stacks


def test_br_010_names_while_code_comes_and_goes(tmp_path):
    done = run(
        tmp_path,
        """
        import time, pyrometer.auto
        end = time.perf_counter() + 1.5
        number = 0
        while time.perf_counter() < end:
            number += 1
            space = {"perf_counter": time.perf_counter}
            exec(compile(f'''
        def f{number}():
            end = perf_counter() + 0.0005
            while perf_counter() < end: pass
        f{number}()
        ''', f"<made {number}>", "exec"), space)
        """,
        PYROMETER_SAMPLING_INTERVAL="1ms",
        PYROMETER_OVERHEAD_PCT="50",
    )
    assert done.code == 0
    seen = 0
    for sample in done.samples():
        for name, file, _ in sample.stack:
            if file.startswith("<made"):
                assert name == "<module>" or file == f"<made {name[1:]}>"
                seen += name != "<module>"
    assert seen > 100


def test_br_013_no_impossible_pairs(tmp_path):
    done = run(
        tmp_path,
        """
        import time, pyrometer.auto
        def leaf_a():
            for _ in range(20): pass
        def leaf_b():
            for _ in range(20): pass
        def hot_a(): leaf_a()
        def hot_b(): leaf_b()
        end = time.perf_counter() + 1.5
        while time.perf_counter() < end:
            hot_a(); hot_b()
        """,
        PYROMETER_SAMPLING_INTERVAL="1ms",
        PYROMETER_OVERHEAD_PCT="50",
    )
    stacks = [python_names(s) for s in done.samples()]
    allowed = [["leaf_a", "hot_a"], ["leaf_b", "hot_b"]]
    leaves = [stack[:2] for stack in stacks if stack and stack[0].startswith("leaf_")]
    assert len(leaves) > 100
    assert not [pair for pair in leaves if pair not in allowed]
