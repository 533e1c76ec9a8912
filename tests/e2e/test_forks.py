"""Forks and multiprocessing: every child that runs Python is profiled, and none is harmed."""

import json
import sys

import pytest
from agent import run

WORK = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(200):
            pass
"""


def test_br_108_fork_storm(tmp_path):
    """1,000 forks by a process whose threads allocate, lock and flush; each child does the same."""
    done = run(
        tmp_path,
        WORK
        + """
import pyrometer.auto
from pyrometer import Profiler
over = False
def churn():
    lock = threading.Lock()
    while not over:
        with lock:
            [bytearray(100) for _ in range(100)]
        time.sleep(0.0005)
def flush():
    while not over:
        Profiler().flush()
        Profiler().status()
        time.sleep(0.002)
threads = [threading.Thread(target=churn, daemon=True) for _ in range(7)]
threads.append(threading.Thread(target=flush, daemon=True))
for thread in threads:
    thread.start()
def child():
    with threading.Lock():
        [bytearray(100) for _ in range(100)]
    thread = threading.Thread(target=bytearray, args=(100,))
    thread.start()
    thread.join()
    os._exit(7)
for _ in range(1000):
    pid = os.fork()
    if pid == 0:
        child()
    deadline = time.monotonic() + 10
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 7
            break
        assert time.monotonic() < deadline, "a child hangs"
        time.sleep(0.0005)
over = True
print("done")
""",
        timeout=110,
    )
    assert (done.code, done.out, done.err) == (0, "done\n", "")


def test_br_110_111_child_starts_empty_with_its_own_threads(tmp_path):
    done = run(
        tmp_path,
        WORK
        + """
import pyrometer.auto
over = False
def idle():
    while not over:
        time.sleep(0.01)
threads = [threading.Thread(target=idle, name=f"parent's {i}") for i in range(10)]
for thread in threads:
    thread.start()
def parent_only(): burn(0.5)
def child_only(): burn(0.4)
parent_only()
pid = os.fork()
if pid == 0:
    child_only()
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
over = True
print(os.getpid(), pid)
""",
    )
    assert done.code == 0, done.err
    parent, child = done.out.split()
    (parents,), (childs,) = done.profiles(parent), done.profiles(child)
    assert "parent_only" in parents.by_function("cpu-time")
    assert "child_only" not in parents.by_function("cpu-time")
    assert "child_only" in childs.by_function("cpu-time")
    assert "parent_only" not in childs.by_function("cpu-time")
    names = {sample.labels.get("thread name") for sample in childs.samples}
    assert not [name for name in names if name and name.startswith("parent's")], names
    assert childs.time_ns >= parents.time_ns
    # The same numbers as the clocks: nothing is counted twice.
    assert 0.45e9 < parents.by_function("cpu-time")["parent_only"][1] < 0.55e9
    assert 0.35e9 < childs.by_function("cpu-time")["child_only"][1] < 0.45e9


def test_children_know_their_parent(tmp_path):
    done = run(
        tmp_path,
        WORK
        + """
import pyrometer.auto
from pyrometer import Profiler
mine = Profiler().status()["identity"]
pid = os.fork()
if pid == 0:
    identity = Profiler().status()["identity"]
    assert identity["parent_runtime_id"] == mine["runtime_id"] != identity["runtime_id"]
    assert identity["pid"] == os.getpid() != mine["pid"]
    os._exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
""",
    )
    assert (done.code, done.err) == (0, "")


def test_a_child_that_flushes_at_once(tmp_path):
    """Asking starts its profiler, without the GIL, which hooks of allocators would need."""
    done = run(
        tmp_path,
        WORK
        + """
from pyrometer import Profiler
profiler = Profiler()
profiler.start()
pid = os.fork()
if pid == 0:
    profiler.flush(30)
    kept = [bytearray(100_000) for _ in range(1000)]
    assert profiler.status()["heap"]["live_bytes"] > 50e6
    sys.exit(0)
print(os.waitpid(pid, 0)[1])
profiler.stop()
""",
    )
    assert (done.code, done.out, done.err) == (0, "0\n", "")


def test_br_113_fork_does_not_wait(tmp_path):
    """While a window of many thousand stacks is delivered, over and over."""
    done = run(
        tmp_path,
        WORK
        + """
from pyrometer import Profiler
profiler = Profiler(sampling_interval="1ms", overhead_pct=50)
profiler.start()
over = False
def flush():
    while not over:
        profiler.flush()
thread = threading.Thread(target=flush)
thread.start()
times = []
for _ in range(50):
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    times.append(time.perf_counter() - start)
    os.waitpid(pid, 0)
    burn(0.002)
over = True
thread.join()
times.sort()
print(times[25], times[45])
""",
    )
    assert done.code == 0, done.err
    median, late = map(float, done.out.split())
    assert median < 0.050 and late < 0.250, done.out


def test_child_that_ends_by_os_exit_delivers(tmp_path):
    """In the middle of the stack that it was forked in; the object stays what it was."""
    done = run(
        tmp_path,
        WORK
        + """
before = type(os._exit), os._exit.__name__, os._exit.__doc__
import pyrometer.auto
assert (type(os._exit), os._exit.__name__, os._exit.__doc__) == before
def child(): burn(0.3)
pids = []
for number in range(3):
    pid = os.fork()
    if pid == 0:
        if number == 0:
            child()
            os._exit(3)
        if number == 1:
            try:
                os._exit("no number")
            except TypeError:
                burn(0.1)
                os._exit(status=4)
        os._exit(5)
    pids.append(pid)
print(*[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])
print(*pids)
""",
    )
    assert (done.code, done.err) == (0, "")
    codes, pids = (line.split() for line in done.out.splitlines())
    assert codes == ["3", "4", "5"]
    (profile,) = done.profiles(pids[0])
    assert 0.27e9 < profile.by_function("cpu-time")["child"][1] < 0.33e9
    assert profile.total("cpu-time") > 0.3e9
    assert not done.files(pids[2])  # it was over before it began


FOREIGN = (
    WORK
    + """
import ctypes, pyrometer.auto
from pyrometer import Profiler
libc = ctypes.PyDLL(None)
def before(): burn(0.3)
def after(): burn(0.3)
before()
pid = libc.fork()
if pid == 0:
    burn(0.05)
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
after()
print(os.getpid(), pid)
"""
)


def test_br_116_fork_behind_cpythons_back(tmp_path):
    done = run(tmp_path, FOREIGN)
    assert (done.code, done.err) == (0, "")
    parent, child = done.out.split()
    (profile,) = done.profiles(parent)
    functions = profile.by_function("cpu-time")
    assert {"before", "after"} <= set(functions)
    assert 0.25e9 < functions["before"][1] < 0.35e9
    assert not done.files(child)


def test_br_116_child_of_a_foreign_fork_can_be_asked(tmp_path):
    asked = "assert Profiler().status()['identity']['pid'] == os.getpid()"
    source = FOREIGN.replace("burn(0.05)", asked)
    done = run(tmp_path, source)
    assert (done.code, done.err) == (0, "")


def test_br_116_spawned_programs(tmp_path):
    done = run(
        tmp_path,
        WORK
        + """
import subprocess, pyrometer.auto
for _ in range(20):
    assert subprocess.run(["true"]).returncode == 0
    assert subprocess.run(["false"], preexec_fn=lambda: None).returncode == 1
    pid = os.posix_spawn("/bin/true", ["true"], os.environ)
    assert os.waitpid(pid, 0)[1] == 0
""",
    )
    assert (done.code, done.err) == (0, "")
    assert len(done.files()) == 1


MULTIPROCESSING = """
import multiprocessing, os, sys, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import pyrometer.auto

def short():
    time.sleep(0.3)

def work(number):
    time.sleep(0.05)
    return os.getpid()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    process = context.Process(target=short)
    process.start()
    process.join()
    assert process.exitcode == 0
    print(process.pid)
    with context.Pool(2) as pool:
        workers = pool._pool
        pool.map(work, range(8))
        print(*[worker.pid for worker in workers])
    for worker in workers:
        worker.join()
    print(*[worker.exitcode for worker in workers])
    pool = context.Pool(2)
    workers = pool._pool
    print(*[worker.pid for worker in workers])
    pool.map(work, range(8))
    pool.close()
    pool.join()
"""


@pytest.mark.parametrize("way", ["import", "run"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_br_117_multiprocessing(tmp_path, method, way):
    """What the program imports comes to its workers with it; `pyrometer run` has to follow them."""
    if way == "import":
        done = run(tmp_path, MULTIPROCESSING, method)
    else:
        source = MULTIPROCESSING.replace("import pyrometer.auto\n", "")
        done = run(tmp_path, source, method, wrapper=(sys.executable, "-m", "pyrometer", "run"))
    assert (done.code, done.err) == (0, "")
    short, terminated, codes, closed = done.out.splitlines()
    assert set(codes.split()) <= {"0", "-15"}  # a worker may see the end of its pipe first
    for pid in [short, *terminated.split(), *closed.split()]:
        assert done.files(pid), pid
    assert "short" in done.profiles(short)[0].by_function("wall-time")


def test_br_117_shared_things_of_multiprocessing(tmp_path):
    """Managers, shared memory and semaphores: the same results, and no line on stderr."""
    done = run(
        tmp_path,
        """
        import multiprocessing, warnings
        from multiprocessing import shared_memory
        warnings.simplefilter("ignore", DeprecationWarning)
        import pyrometer.auto
        def add(total, lock, names):
            with lock:
                total.value += 1
            names["a"] = 1
        if __name__ == "__main__":
            for method in ("fork", "spawn", "forkserver"):
                context = multiprocessing.get_context(method)
                memory = shared_memory.SharedMemory(create=True, size=100)
                with context.Manager() as manager:
                    total, lock, names = context.Value("i", 0), context.Lock(), manager.dict()
                    workers = [context.Process(target=add, args=(total, lock, names))
                               for _ in range(3)]
                    for worker in workers: worker.start()
                    for worker in workers: worker.join()
                    assert total.value == 3 and dict(names) == {"a": 1}
                    assert [worker.exitcode for worker in workers] == [0, 0, 0]
                memory.close(); memory.unlink()
        """,
    )
    assert (done.code, done.err) == (0, "")


def test_single_threaded_programs_fork_without_a_warning(tmp_path):
    """CPython 3.12 and later warn of forks with threads; ours must not be the only reason. Hooks
    that run after ours, as that of logging, are part of the fork."""
    done = run(
        tmp_path,
        """
        import os, time, pyrometer.auto, logging
        from pyrometer import Profiler
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
            time.sleep(0.01)
        assert Profiler().status()["collectors"]["stack"] == "on"
        """,
        options=("-W", "always"),
    )
    assert (done.code, done.err) == (0, "")
    assert done.samples()


def test_a_timer_that_a_child_makes_is_its_own(tmp_path):
    """With many threads the profiler has a timer of the kernel, which no child inherits: their ids
    begin anew."""
    done = run(
        tmp_path,
        """
        import ctypes, os, threading, time
        libc = ctypes.CDLL(None)
        timer = ctypes.c_void_p()
        def make():  # before the profiler starts again in the child
            assert libc.timer_create(time.CLOCK_MONOTONIC, None, ctypes.byref(timer)) == 0
        os.register_at_fork(after_in_child=make)
        import pyrometer.auto
        gate = threading.Event()
        threads = [threading.Thread(target=gate.wait) for _ in range(40)]
        for thread in threads: thread.start()
        time.sleep(0.5)
        gate.set()
        for thread in threads: thread.join()
        time.sleep(0.1)
        pid = os.fork()
        if pid == 0:
            left = (ctypes.c_long * 4)()
            os._exit(libc.timer_gettime(timer, left) != 0)
        assert os.waitpid(pid, 0)[1] == 0
        """,
    )
    assert (done.code, done.err) == (0, "")


def test_a_child_that_ends_as_it_is_about_to_be_profiled(tmp_path):
    done = run(
        tmp_path,
        WORK
        + """
import pyrometer.auto
for i in range(40):
    pid = os.fork()
    if pid == 0:
        end = time.monotonic() + 0.018 + 0.0002 * i
        while time.monotonic() < end: pass
        raise SystemExit(0)
    assert os.waitpid(pid, 0)[1] == 0, i
""",
    )
    assert (done.code, done.err) == (0, "")


def test_a_fork_and_its_child_cost_little_more(tmp_path):
    """2 ms at most, of all CPU: the child's, and the parent's until it has waited for it. With and
    without take turns, in one program with memory to copy and threads that wait."""
    done = run(
        tmp_path,
        """
        import json, os, statistics, threading, time, warnings
        from pyrometer import Profiler
        warnings.simplefilter("ignore", DeprecationWarning)
        kept = [bytes(1000) for _ in range(20_000)]
        over = threading.Event()
        for _ in range(4): threading.Thread(target=over.wait).start()
        def cost():
            costs = []
            for _ in range(15):
                before = time.process_time()
                pid = os.fork()
                if pid == 0: os._exit(0)
                _, status, usage = os.wait4(pid, 0)
                assert status == 0
                costs.append(time.process_time() - before + usage.ru_utime + usage.ru_stime)
            return statistics.median(costs)
        profiler, costs = Profiler(), {"without": [], "with": []}
        for _ in range(4):
            costs["without"].append(cost())
            profiler.start()
            costs["with"].append(cost())
            profiler.stop(flush=False)
        over.set()
        print(json.dumps({name: min(values) for name, values in costs.items()}))
        """,
        timeout=110,
    )
    assert (done.code, done.err) == (0, "")
    costs = json.loads(done.out)
    print(costs)
    assert costs["with"] < costs["without"] + 0.002, costs
