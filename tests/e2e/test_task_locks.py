"""Waits of tasks for the locks of asyncio; what the program sees of the hooks around these."""

import sys

import pytest
from agent import names, run, with_value

START = """
import asyncio, os, sys, time
import pyrometer
profiler = pyrometer.Profiler(upload_interval="1h")
profiler.start()
"""
STOP = """
profiler.stop()
"""


def of(done, value, kind, function):
    """Sum of a value over samples of a lock type, with a function in the stack."""
    return sum(
        sample.values[value]
        for sample in with_value(done, value)
        if sample.labels.get("lock type") == kind and function in names(sample)
    )


@pytest.mark.parametrize("before", ["", "import asyncio\n"], ids=["late", "early"])
@pytest.mark.parametrize("kind", ["Lock", "Semaphore", "BoundedSemaphore"])
def test_br_068_contended_waits_are_exact(tmp_path, before, kind):
    done = run(
        tmp_path,
        before
        + START
        + f"""
waited = 0
async def worker(lock):
    global waited
    for i in range(8):
        began = time.monotonic()
        if i % 2:
            await lock.acquire()
        else:
            await lock.__aenter__()
        waited += time.monotonic() - began
        await asyncio.sleep(0.01)
        lock.release()
async def outer(lock): await worker(lock)
async def blocks(lock):
    async with lock: await asyncio.sleep(0.02)
async def main():
    lock = asyncio.{kind}()
    await asyncio.gather(*(outer(lock) for _ in range(4)))
    await asyncio.gather(*(blocks(lock) for _ in range(4)))
asyncio.run(main())
print(waited)
"""
        + STOP,
    )
    assert (done.code, done.err) == (0, "")
    waited = float(done.out) * 1e9
    measured = of(done, "lock-acquire-wait", f"asyncio.{kind}", "worker")
    # What came at once is in the program's sum, too; a few short ones stand for each other.
    assert 0.97 * waited < measured < 1.02 * waited
    assert 0.1e9 < of(done, "lock-acquire-wait", f"asyncio.{kind}", "blocks")
    samples = with_value(done, "lock-acquire-wait")
    mine = [s for s in samples if s.labels.get("lock type") == f"asyncio.{kind}"]
    assert all(s.labels["wait kind"] == "mutex" for s in mine)
    # The task's own stack: what awaits, down to its first coroutine.
    stacks = [names(s) for s in mine if "worker" in names(s)]
    assert all(stack[stack.index("worker") + 1] == "outer" for stack in stacks)
    # Held by one at a time, almost without a gap.
    held = of(done, "lock-release-hold", f"asyncio.{kind}", "worker")
    assert held == 0 or 0.5 * waited / 3 < held < 1.2 * waited / 3


@pytest.mark.parametrize("kind", ["Lock", "Semaphore", "Condition"])
def test_waits_name_their_holder(tmp_path, kind):
    done = run(
        tmp_path,
        START
        + f"""
waited = 0
async def slow():
    await asyncio.sleep(0.02)
async def left(lock):
    async with lock: await slow()
async def right(lock):
    async with lock: await slow()
async def waits(lock, side):
    global waited
    began = time.monotonic()
    async with lock: waited += time.monotonic() - began
async def main():
    lock = asyncio.{kind}()
    for i in range(20):
        holder = asyncio.create_task((left if i % 2 else right)(lock))
        await asyncio.sleep(0)
        await asyncio.gather(*(wait_left(lock) if i % 2 else wait_right(lock) for _ in range(3)))
        await holder
    # Who gives up has nobody to blame, and a lock that is gone is no trouble.
    await lock.acquire()
    try: await asyncio.wait_for(lock.acquire(), 0.01)
    except asyncio.TimeoutError: pass
async def wait_left(lock): await waits(lock, 0)
async def wait_right(lock): await waits(lock, 1)
asyncio.run(main())
print(waited)
"""
        + STOP,
    )
    assert (done.code, done.err) == (0, "")
    truth = float(done.out) * 1e9
    sides, pairs = {}, {}
    for sample in with_value(done, "lock-acquire-wait"):
        side = [name[5:] for name in names(sample) if name.startswith("wait_")]
        pair = sample.labels.get("pair id")
        if side and pair:
            sides.setdefault(pair, set()).add(side[0])
            pairs[pair] = pairs.get(pair, 0) + sample.values["lock-acquire-wait"]
    named = {"left": 0, "right": 0}
    for sample in with_value(done, "lock-hold-blocking"):
        (side,) = sides[sample.labels["pair id"]]
        assert side in names(sample), names(sample)
        assert sample.labels["lock type"].startswith("asyncio.")
        named[side] += sample.values["lock-hold-blocking"]
    assert sum(named.values()) == sum(pairs.values())
    assert 0.9 * truth < sum(named.values()) < 1.02 * truth
    assert min(named.values()) > 0.3 * truth


def test_uncontended_ones_count(tmp_path):
    done = run(
        tmp_path,
        START
        + """
async def work(lock):
    for _ in range(20000):
        async with lock: pass
async def by_hand(lock):
    for _ in range(10000):
        await lock.acquire(); lock.release()
async def main():
    await work(asyncio.Lock())
    await work(asyncio.Semaphore(3))
    await by_hand(asyncio.Lock())
asyncio.run(main())
"""
        + STOP,
    )
    assert (done.code, done.err) == (0, "")
    # Calls from bytecode do not tell of themselves on the oldest version.
    total = 50_000 if sys.version_info >= (3, 12) else 40_000
    measured = sum(
        s.values["lock-acquire"]
        for s in with_value(done, "lock-acquire")
        if s.labels.get("lock type", "asyncio").startswith("asyncio")
    )
    assert 0.97 * total < measured < 1.03 * total
    released = sum(
        s.values["lock-release"]
        for s in with_value(done, "lock-release")
        if s.labels["lock type"].startswith("asyncio")
    )
    assert 0.9 * total < released <= 1.03 * total
    assert all(s.values["lock-release-hold"] > 0 for s in with_value(done, "lock-release-hold"))


def test_tasks_that_wait_to_be_woken_are_parked(tmp_path):
    done = run(
        tmp_path,
        START
        + """
async def by_event(event): await event.wait()
async def by_queue(queue): assert await queue.get() == 1
async def by_put(queue):
    await queue.put(1); await queue.put(1)
async def by_condition(condition):
    async with condition:
        await condition.wait()
        await asyncio.sleep(0.2)
async def main():
    began = time.monotonic()
    event, queue, full = asyncio.Event(), asyncio.PriorityQueue(), asyncio.Queue(1)
    condition = asyncio.Condition()
    waits = [by_event(event), by_queue(queue), by_put(full), *[by_condition(condition)] * 1,
             by_condition(condition), by_condition(condition)]
    tasks = [asyncio.create_task(wait) for wait in waits]
    await asyncio.sleep(0.2)
    event.set(); queue.put_nowait(1); await full.get()
    async with condition: condition.notify_all()
    print(time.monotonic() - began + 0.05)
    await asyncio.gather(*tasks)
    print(time.monotonic() - began)
asyncio.run(main())
"""
        + STOP,
    )
    assert (done.code, done.err) == (0, "")
    for kind, function in [
        ("Event", "by_event"),
        ("Queue", "by_queue"),
        ("Queue", "by_put"),
    ]:
        assert 0.19e9 < of(done, "lock-acquire-wait", f"asyncio.{kind}", function)
    for sample in with_value(done, "lock-acquire-wait"):
        kind = sample.labels.get("lock type", "")
        if kind in ("asyncio.Event", "asyncio.Queue", "asyncio.Condition"):
            assert sample.labels["wait kind"] == "park"
    # Until it is woken is one thing, until it has its lock again another one.
    parked = of(done, "lock-acquire-wait", "asyncio.Condition", "by_condition")
    waited = of(done, "lock-acquire-wait", "asyncio.Lock", "by_condition")
    woken, whole = (float(part) * 1e9 for part in done.out.split())
    assert 0.45e9 < parked < 3 * woken
    assert 0.45e9 < waited < 3 * (whole - woken)


def test_waits_that_end_otherwise(tmp_path):
    done = run(
        tmp_path,
        START
        + """
import gc
async def holder(lock):
    async with lock: await asyncio.sleep(0.3)
async def cancelled(lock):
    try: await asyncio.wait_for(lock.acquire(), 0.05)
    except asyncio.TimeoutError: print("timeout")
async def in_a_task(lock):
    task = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0.15)
    task.cancel()
    try: await task
    except asyncio.CancelledError: print("cancelled")
async def raises():
    try: asyncio.Lock().release()
    except RuntimeError as error: print(error)
    lock = asyncio.BoundedSemaphore(1)
    try: lock.release()
    except ValueError as error: print(error)
    try: await asyncio.Lock.acquire()
    except TypeError: print("no self")
    coroutine = asyncio.Lock().acquire()
    coroutine.close()
async def main():
    lock = asyncio.Lock()
    await asyncio.gather(holder(lock), cancelled(lock), in_a_task(lock))
    await raises()
    print(lock.locked())
asyncio.run(main())
def abandoned():
    loop = asyncio.new_event_loop()
    lock = asyncio.Lock()
    async def wait():
        await lock.acquire()
        await lock.acquire()
    task = loop.create_task(wait())
    loop.run_until_complete(asyncio.sleep(0))
    task._log_destroy_pending = False
    loop.close()
abandoned()
gc.collect()
async def elsewhere():
    try: await asyncio.wait_for(bound.acquire(), 1)
    except RuntimeError as error: print("other loop")
bound = asyncio.Lock()
async def bind():
    await bound.acquire()
    try: await asyncio.wait_for(bound.acquire(), 0.01)
    except asyncio.TimeoutError: pass
asyncio.run(bind())
asyncio.run(elsewhere())
"""
        + STOP,
    )
    assert (done.code, done.err) == (0, "")
    assert done.out.split("\n") == [
        "timeout",
        "cancelled",
        "Lock is not acquired.",
        "BoundedSemaphore released too many times",
        "no self",
        "False",
        "other loop",
        "",
    ]
    # The oldest version's wait_for makes a task of its own for what it waits for.
    waiter = "cancelled" if sys.version_info >= (3, 12) else "Lock.acquire"
    assert 0.04e9 < of(done, "lock-acquire-wait", "asyncio.Lock", waiter)


LOOKS = """
{start}
import asyncio, copy, inspect, pickle, sys, typing, weakref
from asyncio import locks, mixins
kinds = (asyncio.Lock, asyncio.Semaphore, asyncio.BoundedSemaphore, asyncio.Condition,
         asyncio.Event, asyncio.Queue)
for kind in kinds:
    print(kind, kind.__module__, kind.__mro__, sorted(vars(kind)))
    for name in ("acquire", "release", "wait", "get", "put", "__aenter__", "__aexit__"):
        method = getattr(kind, name, None)
        if method is not None:
            print(name, type(method), method.__qualname__, inspect.iscoroutinefunction(method),
                  inspect.signature(method), method.__doc__, method.__code__.co_code.hex())
            print(inspect.getsource(method))
    print(kind | None, typing.Optional[kind])
def f(c: asyncio.Condition | None): ...
print(typing.get_type_hints(f))
print([getattr(finder, "__name__", type(finder)) for finder in sys.meta_path])
async def main():
    lock = asyncio.Lock()
    print(lock.acquire() is not None, inspect.iscoroutine(coroutine := lock.acquire()))
    await coroutine
    print(lock.locked(), repr(lock).split(" at ")[1].split("[")[1], weakref.ref(lock)() is lock)
    lock.release()
    object.__setattr__(lock, "own", 1)
    for bad in (copy.copy, copy.deepcopy, pickle.dumps):
        try: print(type(bad(lock)))
        except Exception as error: print(type(error))
    class Own(asyncio.Lock):
        async def acquire(self): raise AssertionError("mine")
    try:
        async with Own(): pass
    except AssertionError as error: print(error)
    held = asyncio.Lock()
    await held.acquire()
    task = asyncio.create_task(held.acquire())
    await asyncio.sleep(0)
    print(len(held._waiters), task.get_stack()[0].f_code.co_name, task.get_coro().__qualname__)
    held.release()
    print(await task)
import warnings
warnings.simplefilter("ignore")
asyncio.run(main())
"""


def test_br_065_nothing_tells_that_they_are_measured(tmp_path):
    plain = run(tmp_path, LOOKS.format(start=""))
    (tmp_path / "b").mkdir()
    measured = run(tmp_path / "b", LOOKS.format(start="import pyrometer.auto"))
    assert plain.code == 0, plain.err
    assert (measured.code, measured.out) == (0, plain.out)


def test_nothing_stays_after_a_stop(tmp_path):
    done = run(
        tmp_path,
        """
import asyncio
from asyncio import mixins
before = [vars(asyncio.Lock)["acquire"], vars(mixins._LoopBoundMixin)["_get_loop"]]
"""
        + START
        + """
async def contend():
    lock = asyncio.Lock()
    async def one():
        async with lock: await asyncio.sleep(0.001)
    await asyncio.gather(one(), one(), one())
for _ in range(100):
    asyncio.run(contend())
    print(profiler.status()["locks"]["hook_asyncio"][:9])
    profiler.stop(flush=False)
    assert [vars(asyncio.Lock)["acquire"],
            vars(mixins._LoopBoundMixin)["_get_loop"]] == before
    asyncio.run(contend())
    profiler.start()
async def over_a_stop():
    lock = asyncio.Lock()
    await lock.acquire()
    task = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0.05)
    profiler.stop(flush=False)
    profiler.start()
    lock.release()
    await task
    task = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0.02)
    profiler.stop(flush=False)
    lock.release()
    await task
asyncio.run(over_a_stop())
print("end")
""",
    )
    assert (done.code, done.err) == (0, "")
    assert set(done.out.split()) == {"waits", "and", "end"} or done.out.count("waits and") == 100


def test_calls_in_the_library_stay_as_fast_as_they_were(tmp_path):
    """What bytecode calls through a hook is not specialised, and made from C."""
    done = run(
        tmp_path,
        START
        + """
import dis
from asyncio.locks import _ContextManagerMixin
def is_specialised(function):
    code = dis.get_instructions(getattr(_ContextManagerMixin, function), adaptive=True)
    return any("EXACT_ARGS" in instruction.opname for instruction in code)
async def work(lock):
    for _ in range(2000):
        async with lock: pass
def see(function):
    fast = 0
    for _ in range(200):
        asyncio.run(work(asyncio.Lock()))
        fast += is_specialised(function)
    return fast
async def contend(lock):
    async def one():
        async with lock: await asyncio.sleep(0.001)
    await asyncio.gather(one(), one(), one())
asyncio.run(contend(asyncio.Lock()))
while_on = see("__aexit__")
profiler.stop(flush=False)
print(while_on, see("__aexit__"), see("__aenter__"))
""",
    )
    assert (done.code, done.err) == (0, "")
    while_on, releases, acquisitions = map(int, done.out.split())
    assert while_on > 100  # not but while one has something to tell
    assert min(releases, acquisitions) > 190


def test_no_code_of_the_program_runs_beside_its_own(tmp_path):
    done = run(
        tmp_path,
        START
        + """
seen = []
def see(name):
    seen.append((sys._getframe(2).f_code.co_name, name))
class Watched:
    def __getattribute__(self, name):
        see(name)
        return super().__getattribute__(name)
def watch(name):
    def get(self):
        see(name)
        return self.kept
    return property(get, lambda self, value: setattr(self, "kept", value))
class Locked: _locked = watch("_locked")
class Inner: _lock = watch("_lock")
async def main():
    for kind in Watched, Locked:
        lock = type("Own", (kind, asyncio.Lock), {})()
        await lock.acquire()
        waits = lock.acquire()
        waits.send(None)
        del waits
    for kind in Watched, Inner:
        async with type("Own", (kind, asyncio.Condition), {})(): pass
asyncio.run(main())
print([name for caller, name in seen if caller == "main"])
"""
        + STOP,
    )
    assert (done.code, done.err, done.out) == (0, "", "['acquire', 'acquire']\n")


def test_what_a_program_puts_around_a_method_works_after_a_restart(tmp_path):
    done = run(
        tmp_path,
        START
        + """
from asyncio import mixins
async def contend():
    lock = asyncio.Lock()
    async def one():
        async with lock: await asyncio.sleep(0.001)
    await asyncio.gather(one(), one(), one())
asyncio.run(contend())
before = mixins._LoopBoundMixin._get_loop
mixins._LoopBoundMixin._get_loop = lambda self: before(self)
for _ in range(2):
    profiler.stop(flush=False)
    profiler.start()
    asyncio.run(contend())
print("end")
"""
        + STOP,
    )
    assert (done.code, done.err, done.out) == (0, "", "end\n")


def test_many_tasks_loops_threads_and_forks(tmp_path):
    done = run(
        tmp_path,
        """
import gc, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
"""
        + START
        + """
async def storm(rounds):
    lock, semaphore, queue = asyncio.Lock(), asyncio.Semaphore(3), asyncio.Queue(2)
    count = 0
    async def one():
        nonlocal count
        for _ in range(rounds):
            async with lock: await asyncio.sleep(0)
            async with semaphore: await asyncio.sleep(0)
            count += 1
    async def put():
        for i in range(200): await queue.put(i)
    async def get():
        return [await queue.get() for _ in range(200)]
    got = await asyncio.gather(get(), put(), *(one() for _ in range(100)))
    assert got[0] == list(range(200)) and count == 100 * rounds
threads = [threading.Thread(target=lambda: asyncio.run(storm(5))) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
def refs():
    gc.collect()
    return sum(type(o).__name__ == "wait" for o in gc.get_objects())
assert refs() <= 1, refs()
if pid := os.fork():
    assert os.waitpid(pid, 0)[1] == 0
else:
    asyncio.run(storm(5))
    raise SystemExit(0)
asyncio.run(storm(5))
"""
        + STOP,
    )
    assert (done.code, done.err) == (0, "")
    assert of(done, "lock-acquire-wait", "asyncio.Lock", "storm.<locals>.one")


def test_the_end_comes_while_tasks_wait(tmp_path):
    done = run(
        tmp_path,
        START
        + """
loop = asyncio.new_event_loop()
lock = asyncio.Lock()
async def wait():
    await lock.acquire()
    await lock.acquire()
task = loop.create_task(wait())
task._log_destroy_pending = False
loop.run_until_complete(asyncio.sleep(0.01))
""",
    )
    assert (done.code, done.err) == (0, "")
