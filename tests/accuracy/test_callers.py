"""Stacks are whole: no caller that did not call, no stack without its root, nothing out of order.

All of this is exact: one impossible pair in any number of samples is a failure. The programs run at
up to 1,000 looks a second; PYROMETER_ACCURACY_LONG=400 lets each run for 400 seconds.
"""

import pytest
from truth import FINE, LONG, agent, measured

pytestmark = pytest.mark.beside_others  # exact, however many looks there are

SECONDS = LONG or 4  # of each of the programs
LOOKS = 50 * SECONDS  # that each must have had, however busy the machine
RUNS = pytest.mark.timeout(120 + 10 * LONG)

# Two chains that share a helper, called in turn, and deep enough to need more than one read.
CHAINS = """
    from inside import *

    def helper(n):
        for _ in range(n): pass
    def x(n): helper(n)
    def y(n): helper(n)
    def a(n): x(n)
    def b(n): y(n)
    def turns():
        for n in 0, 1, 5, 20:
            a(n)
            b(n)
    """
# Generators that hand over many times between two looks, delegate, and end.
GENERATORS = """
    from inside import *

    def inner(n):
        for i in range(n): yield i
    def through(n): yield from inner(n)
    def drain(n):
        for _ in through(n): pass
    def direct(n):
        for _ in inner(n): pass
    def turns():
        drain(3)
        direct(2)
        list(through(2))
    """
COROUTINES = """
    import types
    from inside import *

    @types.coroutine
    def suspend(): yield
    async def leaf():
        await suspend()
        for _ in range(5): pass
    async def first(): await leaf()
    async def second(): await leaf()
    def step(coroutine):
        try:
            coroutine.send(None)
            coroutine.send(None)
        except StopIteration:
            pass
    def run_first(): step(first())
    def run_second(): step(second())
    def turns():
        run_first()
        run_second()
    """
# Callbacks through C: each of the frames entered from C has its caller.
THROUGH_C = """
    import functools
    from inside import *

    def key_a(v): return -v
    def key_b(v): return v
    def sort_a(): sorted((3, 1, 2), key=key_a)
    def sort_b(): sorted((3, 1, 2), key=key_b)
    def add(left, right): return left + right
    def fold(): functools.reduce(add, (1, 2, 3))
    def turns():
        sort_a()
        fold()
        sort_b()
    """
MAIN = """
    def work():
        end = time.monotonic() + {seconds}
        while time.monotonic() < end:
            for _ in range(50):
                turns()
    measure(work)
    """
ROOT = ["work", "measure", "<module>"]

# Function -> the functions that call it. A comprehension or generator counts under its own name.
PROGRAMS = {
    "chains": (
        CHAINS,
        {"helper": "x y", "x": "a", "y": "b", "a": "turns", "b": "turns"},
        [["helper", "x", "b"], ["helper", "y", "a"]],
    ),
    "generators": (
        GENERATORS,
        {"inner": "through direct", "through": "drain turns", "drain": "turns", "direct": "turns"},
        [["inner", "through", "direct"]],
    ),
    "coroutines": (
        COROUTINES,
        {
            "suspend": "leaf",
            "leaf": "first second",
            "first": "step run_first",  # the call makes the coroutine, inside a frame of its own
            "second": "step run_second",
            "step": "run_first run_second",
            "run_first": "turns",
            "run_second": "turns",
        },
        [
            ["first", "step", "run_second"],
            ["second", "step", "run_first"],
            ["leaf", "first", "run_first"],
            ["leaf", "second", "run_second"],
        ],
    ),
    "through C": (
        THROUGH_C,
        {
            "key_a": "sort_a",
            "key_b": "sort_b",
            "add": "fold",
            "sort_a": "turns",
            "sort_b": "turns",
            "fold": "turns",
        },
        [],
    ),
}


def is_run(stack: list[str], run: list[str]) -> bool:
    """Whether the names follow each other somewhere in the stack."""
    return any(stack[at : at + len(run)] == run for at in range(len(stack)))


@RUNS
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_impossible_callers(tmp_path, name):
    source, callers, impossible = PROGRAMS[name]
    callers = {function: set(names.split()) for function, names in callers.items()}
    callers["turns"] = {"work"}
    # A stack is a sample here, not a run of samples: without times, equal ones are added up.
    settings = FINE | {"PYROMETER_TIMELINE_ENABLED": "false"}
    source += MAIN.format(seconds=SECONDS)
    found = measured(tmp_path, source, **settings)
    looks, wrong = 0, []
    for sample in found.samples:
        stack = agent.python_names(sample)
        if not set(stack) & callers.keys():
            continue
        looks += sample.values["wall-samples"]
        pairs = [(a, b) for a, b in zip(stack, stack[1:]) if a in callers]
        if (
            any(caller not in callers[function] for function, caller in pairs)
            or any(is_run(stack, run) for run in impossible)
            or any(stack.count(function) > 1 for function in callers)
            or stack[-3:] != ROOT
        ):
            wrong.append(stack)
    # These call every few nanoseconds and do nothing else: of some looks only callers are proved.
    changing = sum(
        sample.values["wall-samples"]
        for sample in found.samples
        if "<changing frames>" in agent.python_names(sample)
    )
    print(f"{name}: {looks} looks at the program, {len(wrong)} wrong, {changing} at callers only")
    assert not wrong, wrong[:5]
    assert looks >= LOOKS, [document["tick"] for document in found.documents]
    # What is over sooner than it is looked at is seen only where its thread lost the CPU meanwhile,
    # which on a quiet machine it hardly does: at least its callers are.
    stacks = [agent.python_names(sample) for sample in found.samples]
    seen = {name for stack in stacks for name in stack}
    hiding = {b for stack in stacks for a, b in zip(stack, stack[1:]) if a == "<changing frames>"}
    unseen = {name for name in callers.keys() - seen if not callers[name] & hiding}
    assert not unseen - {"suspend"}
    assert len(callers.keys() & seen) > len(callers) // 2


def test_br_083_await_chains_are_whole(tmp_path):
    """Chains of coroutines and async generators on an event loop, busy and between switches."""
    found = measured(
        tmp_path,
        """
        import asyncio
        from inside import *

        async def bottom():
            burn(0.002)
            await asyncio.sleep(0)
        async def middle(): await bottom()
        async def values():
            for _ in range(3):
                await middle()
                yield 1
        async def read():
            async for _ in values():
                burn(0.001)
        async def one():
            end = time.monotonic() + 3
            while time.monotonic() < end:
                await read()
        async def both(): await asyncio.gather(one(), one())
        measure(lambda: asyncio.run(both()))
        """,
        **FINE,
    )
    chain = ["burn", "bottom", "middle", "values", "read", "one"]
    whole = 0
    for sample in found.samples:
        stack = agent.python_names(sample)
        present = [name for name in stack if name in chain]
        if "one" not in present:
            assert not present or present == ["burn"], stack
            continue
        assert stack[-1] == "<module>" and stack.count("<module>") == 1, stack
        # Each once, in order, without gaps below: burn may be called by read or by bottom.
        inner = [name for name in present if name != "burn"]
        assert inner == chain[len(chain) - len(inner) :], stack
        assert present.count("burn") <= 1, stack
        if "burn" in present:
            assert present[0] == "burn" and present[1] in ("bottom", "read"), stack
        whole += present == chain
    assert whole > 20  # thousands on a machine at rest; beside 20 other programs 36 were seen
