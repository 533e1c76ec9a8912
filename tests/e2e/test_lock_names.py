"""What a lock is called: the attribute or variable that holds it."""

from agent import run, with_value

START = """
import asyncio, multiprocessing, queue, threading, time
import pyrometer
profiler = pyrometer.Profiler(upload_interval="1h")
profiler.start()
"""


def names_of(done, function):
    """Names of the locks that a function takes, or that are taken for it."""
    found = set()
    for sample in done.samples():
        is_of_locks = any(sample.values[name] for name in sample.values if name.startswith("lock-"))
        if is_of_locks and function in [name for name, _, _ in sample.stack]:
            found.add(sample.labels.get("lock name"))
    return found - {"mixins.py:0:_global_lock"}  # asyncio's own, as a lock meets its loop


def ends(name):
    """The name without its file and line."""
    return name and name.split(":")[-1]


def test_attributes_and_variables(tmp_path):
    done = run(
        tmp_path,
        START
        + """
class Pool:
    def __init__(self):
        self._lock = threading.Lock()
        self.ready = threading.Condition()
        self.jobs = queue.Queue()
    def attribute(self):
        with self._lock: pass
    def by_hand(self):
        self._lock.acquire(); self._lock.release()
    def condition(self):
        with self.ready: pass
    def queue(self):
        self.jobs.put(1)
class Slots:
    __slots__ = ("lock",)
    def __init__(self): self.lock = threading.RLock()
    def slot(self):
        with self.lock: pass
class Unnamed: pass
def of_a_global():
    with top: pass
def of_a_local():
    mine = threading.RLock()
    with mine: pass
def of_a_closure():
    kept = threading.Lock()
    def inside():
        with kept: pass
    inside()
def of_an_argument(given):
    with given: pass
def of_another():
    with pool._lock: pass
def of_nobody():
    threading.Lock().acquire()
def without_init():
    it.lock.acquire(); it.lock.release()
top, pool, slots, it = threading.Lock(), Pool(), Slots(), Unnamed()
it.lock = threading.Lock()
for _ in range(20):
    pool.attribute(); pool.by_hand(); pool.condition(); pool.queue(); slots.slot()
    of_a_global(); of_a_local(); of_a_closure(); of_an_argument(threading.Lock())
    of_another(); of_nobody(); without_init()
class Service:
    def __init__(self): self.guard = asyncio.Lock()
    async def use(self):
        async with self.guard: await asyncio.sleep(0.01)
async def main():
    service = Service()
    await asyncio.gather(*(service.use() for _ in range(3)))
asyncio.run(main())
class Shared:
    def __init__(self): self.between = multiprocessing.Lock()
    def shared(self):
        with self.between: pass
it = Shared()
for _ in range(500): it.shared()  # few are sampled after many
profiler.stop()
""",
    )
    assert (done.code, done.err) == (0, "")
    expected = {
        "Pool.attribute": "program.py:8:Pool._lock",
        "Pool.by_hand": "program.py:8:Pool._lock",
        "Pool.condition": "program.py:8:Pool.ready",
        "Pool.queue": "program.py:8:Pool.jobs",
        "Slots.slot": "program.py:22:Slots.lock",
        "of_a_global": "program.py:0:top",
        "of_a_local": "program.py:28:mine",
        "of_a_closure.<locals>.inside": "program.py:33:kept",
        "of_an_argument": "program.py:36:given",
        "of_another": "program.py:8:Pool._lock",
        "of_nobody": None,
        "without_init": "program.py:0:Unnamed.lock",
        "Service.use": "program.py:51:Service.guard",
        "Shared.shared": "program.py:59:Shared.between",
    }
    assert {function: names_of(done, function) for function in expected} == {
        function: {name} for function, name in expected.items()
    }


def test_among_values_that_have_no_locks(tmp_path):
    """Numbers, texts, lists and modules cost none of the attributes that are looked at."""
    done = run(
        tmp_path,
        START
        + """
import math, os, sys
class Pool:
    def __init__(self): self.lock = threading.Lock()
def takes(count, text, values):
    began, size, kinds = time.monotonic(), len(values), {}
    root, place, name = math.sqrt(size), os.getpid(), sys.platform.lower()
    with pool.lock: values.append(text.join([]) or math.pi)
pool = Pool()
for _ in range(20): takes(1, "a", [])
profiler.stop()
""",
    )
    assert (done.code, done.err) == (0, "")
    assert names_of(done, "takes") == {"program.py:9:Pool.lock"}


def test_attributes_of_classes(tmp_path):
    """However they are reached, and nothing is run to find them."""
    done = run(
        tmp_path,
        START
        + """
import abc
never = 0
class Asked:
    def __get__(self, instance, owner): raise SystemExit("a descriptor was asked")
class Pool:
    asked = Asked()
    shared = threading.Lock()
    def by_self(self):
        with self.shared: pass
        never and self.asked
    @classmethod
    def by_class(cls):
        with cls.shared: pass
        never and cls.asked
class Below(Pool, abc.ABC): pass
def by_name():
    with Pool.shared: pass
    never and Pool.asked
def inherited():
    with Below.shared: pass
for _ in range(20):
    Pool().by_self(); Pool.by_class(); by_name(); inherited()
""",
    )
    assert (done.code, done.err) == (0, "")
    for function in "Pool.by_self", "Pool.by_class", "by_name":
        assert {ends(name) for name in names_of(done, function)} == {"Pool.shared"}, function
    assert {ends(name) for name in names_of(done, "inherited")} == {"Below.shared"}


def test_waiters_and_holders_have_it(tmp_path):
    done = run(
        tmp_path,
        START
        + """
lock, held = threading.Lock(), threading.Event()
def holder():
    with lock:
        held.set(); time.sleep(0.1)
def waiter():
    with lock: pass
thread = threading.Thread(target=holder); thread.start(); held.wait()
waiter(); thread.join()
profiler.stop()
""",
    )
    for value in ("lock-acquire-wait", "lock-hold-blocking"):
        (sample,) = [
            s
            for s in done.samples()
            if s.values[value] and s.labels["wait kind"] == "mutex"
            # On a busy machine a thread's start waits, too.
            and {"waiter", "holder"}.intersection(name for name, _, _ in s.stack)
        ]
        assert sample.labels["lock name"] == "program.py:0:lock"


def test_br_071_naming_runs_no_code_of_the_program(tmp_path):
    done = run(
        tmp_path,
        START
        + """
import os, signal
class Trap:
    def __eq__(self, other): os._exit(3)
    __hash__ = None
    def __getattr__(self, name): os._exit(4)
class Asks:
    def __getattribute__(self, name): os._exit(5)
class Meta(type):
    def __getattribute__(self, name): os._exit(6)
class Strange(metaclass=Meta): pass
class Descriptor:
    def __get__(self, one, kind=None): os._exit(7)
class Owner:
    described = Descriptor()
    def __init__(self): self.last = threading.Lock()
    @property
    def lock(self): os._exit(8)
    def use(self, never=False):
        trap, asks, strange = traps
        if never: self.lock, self.described, trap.x, asks.y, strange.z
        with self.last: pass
traps = Trap(), Asks(), Strange()
owner = Owner()
for _ in range(50): owner.use()
stuck = threading.Lock(); stuck.acquire()
def interrupt(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.05)
def interrupted():
    try: stuck.acquire()
    except KeyboardInterrupt: print("interrupted")
interrupted()
profiler.stop()
""",
    )
    assert (done.code, done.err, done.out) == (0, "", "interrupted\n")
    assert names_of(done, "Owner.use") == {"program.py:21:Owner.last"}
    assert names_of(done, "interrupted") == {"program.py:0:stuck"}


def test_what_lies_before_a_frame_is_left_alone(tmp_path):
    done = run(
        tmp_path,
        START
        + """
everything = globals()
locks = [threading.Lock()]
take = locks.__getitem__
def leaf(of):
    with take(zero): pass
def middle():
    leaf(everything) # lies just before the frame of the leaf
def top():
    gone = bytes(1 << 22)
    id(gone) # lies just before the frame of the middle, and is unmapped
    del gone
    middle()
zero = 0
for _ in range(50): top()
profiler.stop()
""",
    )
    assert (done.code, done.err) == (0, "")
    assert names_of(done, "top") == {None}


def test_a_hold_has_the_name_that_its_acquisition_found(tmp_path):
    """Wherever it ends, and though its end knows it by another name."""
    done = run(
        tmp_path,
        """
import threading, time
import pyrometer
profiler = pyrometer.Profiler(upload_interval="1h")
class Pool:
    def __init__(self): self.slots = threading.Lock()
    def take(self): self.slots.acquire()
def give(whatever): whatever.release()
profiler.start()
pool = Pool()
for _ in range(300):
    pool.take()
    time.sleep(0.001)
    give(pool.slots)
profiler.stop()
        """,
    )
    assert (done.code, done.err) == (0, "")
    found = {
        sample.labels.get("lock name")
        for sample in with_value(done, "lock-release")
        if sample.stack[0][0] == "give"
    }
    assert found == {"program.py:6:Pool.slots"}
