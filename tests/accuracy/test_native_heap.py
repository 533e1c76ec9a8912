"""The native heap against C libraries that know what they allocate and keep.

What is sampled has a bound of four standard errors, or the one that the design promises.
"""

import json
import os
import subprocess
from pathlib import Path

import memory_alone
import pytest
from memory_alone import by_function, documents
from truth import agent

pytestmark = pytest.mark.beside_others  # bytes and names, no times

LIBRARY = Path(__file__).resolve().parent / "native_heap.c"
ON = {"PYROMETER_NATIVE_HEAP_ENABLED": "true"}
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
WAYS = "malloc calloc realloc reallocarray posix_memalign aligned_alloc memalign mmap".split()
SIZE = 208_000_000
# What every program begins with.
BEGIN = """
import ctypes, json, os, sys, time
from pyrometer import Profiler

def load(path):
    library = ctypes.PyDLL(path)
    pointer, number, size = ctypes.c_void_p, ctypes.c_long, ctypes.c_size_t
    for name, result, *arguments in (
        ("keep", pointer, ctypes.c_int, number, size), ("drop", None, pointer),
        ("churn", None, ctypes.c_int, number, size), ("grow", pointer, size, size),
        ("cut", pointer, size), ("drop_unseen", None, pointer), ("drop_rounded", None, pointer),
        ("keep_in_a_thread", pointer, number, size),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library

def live():
    return profiler.status()["memory"]["native_live_bytes"]

profiler = Profiler()
"""


def build(source: Path, target: Path, *options: str) -> Path:
    command = ["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", *options]
    subprocess.run([*command, "-o", target, source, "-pthread"], check=True)
    return target


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    return build(LIBRARY, tmp_path_factory.mktemp("native") / "libkeeps.so")


def profiled(folder, source, *arguments, timeout=120, **settings):
    program = agent.textwrap.dedent(BEGIN) + agent.textwrap.dedent(source)
    return memory_alone.profiled(folder, program, *arguments, timeout=timeout, **(ON | settings))


def of_domain(samples, domain):
    return [sample for sample in samples if sample.labels.get("allocator domain") == domain]


@pytest.mark.parametrize("preload", ["", JEMALLOC])
def test_totals(tmp_path, library, preload):
    """Every function that allocates, small and large: bytes and counts."""
    done = profiled(
        tmp_path,
        """
        library = load(sys.argv[1])
        profiler.start()
        total = count = 0
        for way in range(8):
            for times, size in ((300_000, 192), (3_000, 64_000), (30, 4_096_000)):
                if way == 7: times //= 30
                library.churn(way, times, size)
                total += times * size; count += times
        profiler.stop()
        print(json.dumps([total, count]))
        """,
        library,
        **({"LD_PRELOAD": preload} if preload else {}),
    )
    total, count = json.loads(done.out)
    samples = of_domain(done.samples(), "native")
    # At this speed the distance of samples grows to megabytes.
    assert sum(s.values["alloc-space"] for s in samples) == pytest.approx(total, rel=0.06)
    assert sum(s.values["alloc-samples"] for s in samples) == pytest.approx(count, rel=0.15)
    assert {s.stack[0][0] for s in samples if s.values["alloc-space"] > total / 100} <= {
        "[libkeeps.so]",
        "keep [libkeeps.so]",
    }


@pytest.mark.parametrize(
    ("way", "size"),
    [(way, size) for way in WAYS for size in (960, 409_600) if (way, size) != ("mmap", 960)]
    + [("grow", 100_000)],
)
def test_live_heap(tmp_path, library, way, size):
    """208 MB are kept, and more comes and goes; then all is freed."""
    done = profiled(
        tmp_path,
        """
        library = load(sys.argv[1])
        way, size, whole = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
        profiler.start()
        def keeps():
            if way < 0: return library.grow(size, whole)
            return library.keep(way, whole // size, size)
        kept = keeps()
        library.churn(0, 200_000, 1024)
        profiler.flush(30)
        before = live()
        library.drop(kept)
        print(json.dumps([before, live()]))
        profiler.stop()
        """,
        library,
        WAYS.index(way) if way in WAYS else -1,
        size,
        SIZE,
    )
    before, after = json.loads(done.out)
    native = of_domain(done.profiles()[0].samples, "native")
    assert before == pytest.approx(SIZE, rel=0.03)
    assert after < 0.01 * SIZE
    assert sum(s.values["heap-space"] for s in native) == pytest.approx(SIZE, rel=0.03)
    assert by_function(native, "heap-space")["keeps"] > 0.95 * SIZE
    assert documents(done)[0]["heap"]["native_frees_unseen"] == 0


@pytest.mark.parametrize("preload", ["", JEMALLOC])
def test_numpy(tmp_path, preload):
    """Its arrays are its own malloc's and calloc's, and so are those it makes on the way."""
    done = profiled(
        tmp_path,
        """
        import numpy
        profiler.start()
        def rest(): time.sleep(0.001)   # a thousand a second: samples keep their distance
        def ones(): rest(); return numpy.ones(125_000)
        def zeros(): rest(); return numpy.zeros(12_500)
        def added(): rest(); return kept[0] + kept[1]
        kept = [ones() for _ in range(100)] + [zeros() for _ in range(1000)]
        for _ in range(1000): added()
        profiler.flush(30)
        del kept
        print(live())
        profiler.stop()
        """,
        **({"LD_PRELOAD": preload} if preload else {}),
    )
    native = of_domain(done.profiles()[0].samples, "native")
    live, total = by_function(native, "heap-space"), by_function(native, "alloc-space")
    for name in ("ones", "zeros"):
        assert live[name] == pytest.approx(100e6, rel=0.03)
    assert total["added"] == pytest.approx(1e9, rel=0.01)
    assert {s.stack[0][0] for s in native if s.values["heap-space"] > 1e6} <= {
        s.stack[0][0] for s in native if "_multiarray_umath" in s.stack[0][0]
    }
    assert int(done.out) < 2e6


def test_br_040_memory_of_libraries_is_explained(tmp_path):
    """Python's live heap and the native one are what RSS has grown by."""
    done = profiled(
        tmp_path,
        """
        import numpy
        numpy.ones(1000)
        profiler.start()
        before = profiler.status()["memory"]
        kept = [numpy.ones(10**6 // 8) for _ in range(300)]
        after = profiler.status()["memory"]
        grown = after["rss_bytes"] - before["rss_bytes"]
        known = after["python_live_bytes"] + after["native_live_bytes"]
        profiler.stop()
        print(json.dumps([grown, known]))
        """,
    )
    grown, known = json.loads(done.out)
    assert grown > 290e6
    assert known > 0.9 * grown
    assert known < 1.03 * 300e6 + 3e6


@pytest.mark.parametrize("allocator", ["pymalloc", "malloc", "pymalloc_debug"])
def test_nothing_is_counted_twice(tmp_path, allocator):
    """What Python's allocators get of malloc and mmap is Python's."""
    done = profiled(
        tmp_path,
        """
        profiler.start()
        big = [bytes(64_000_000) for _ in range(3)]
        small = [bytes(200 - sys.getsizeof(b"")) for _ in range(300_000)]
        profiler.flush(30)
        memory = profiler.status()["memory"]
        profiler.stop()
        print(json.dumps(memory))
        """,
        PYTHONMALLOC=allocator,
    )
    memory = json.loads(done.out)
    first = done.profiles()[0]
    native = of_domain(first.samples, "native")
    truth = 192e6 + 300_000 * 208
    assert memory["python_live_bytes"] == pytest.approx(truth, rel=0.05)
    assert memory["native_live_bytes"] < 0.01 * truth
    assert sum(s.values["alloc-space"] for s in native) < 0.01 * truth


def test_a_library_loaded_later(tmp_path, library):
    """Its slots are found by the next ticks of the sampler; until then its blocks are unseen."""
    done = profiled(
        tmp_path,
        """
        profiler.start()
        before = profiler.status()["heap"]["native_slots"]
        library = load(sys.argv[1])
        until = time.monotonic() + 30
        while profiler.status()["heap"]["native_slots"] == before and time.monotonic() < until:
            time.sleep(0.01)
        kept = library.keep(0, 200_000, 960)
        profiler.flush(30)
        library.drop(kept)
        print(live())
        profiler.stop()
        """,
        library,
        PYROMETER_STACK_ENABLED="true",
    )
    native = of_domain(done.profiles()[0].samples, "native")
    assert sum(s.values["heap-space"] for s in native) == pytest.approx(192e6, rel=0.03)
    assert int(done.out) < 2e6


def test_threads_that_python_does_not_know(tmp_path, library):
    """They have native frames alone, to the end of their stack, and their ids."""
    done = profiled(
        tmp_path,
        """
        library = load(sys.argv[1])
        profiler.start()
        kept = library.keep_in_a_thread(100_000, 960)
        profiler.stop()
        """,
        library,
    )
    native = [
        s
        for s in of_domain(done.samples(), "native")
        if all(file == "<native>" for _, file, _ in s.stack)
    ]
    assert {s.stack[-1][0].partition(" ")[2] or s.stack[-1][0] for s in native} == {"[libc.so.6]"}
    assert sum(s.values["heap-space"] for s in native) == pytest.approx(96e6, rel=0.05)
    assert all(s.labels["thread native id"] > 0 for s in native)


def test_frees_that_nobody_sees(tmp_path, library):
    """They are found when the memory is used again or given back, and are counted."""
    done = profiled(
        tmp_path,
        """
        library = load(sys.argv[1])
        profiler.start()
        small, large = library.keep(0, 100_000, 960), library.keep(0, 200, 4_096_000)
        status = [profiler.status()["heap"]]
        library.drop_unseen(large)
        status.append(profiler.status()["heap"])
        library.drop_unseen(small)
        again = library.keep(0, 100_000, 960)
        status.append(profiler.status()["heap"])
        profiler.stop()
        print(json.dumps(status))
        """,
        library,
    )
    kept, given_back, again = json.loads(done.out)
    assert kept["live_bytes"] == pytest.approx(915e6, rel=0.03)
    assert kept["native_frees_unseen"] == 0
    assert given_back["live_bytes"] < 150e6 and given_back["native_frees_unseen"] >= 190
    assert again["live_bytes"] < 115e6
    assert again["native_frees_unseen"] > given_back["native_frees_unseen"]


def test_a_mapping_that_is_cut(tmp_path, library):
    """What is cut off at its beginning is free, what follows lives on at its new address."""
    done = profiled(
        tmp_path,
        """
        library = load(sys.argv[1])
        profiler.start()
        kept = [library.cut(40_960_000) for _ in range(5)]
        before = live()
        for one in kept: library.drop(one)
        print(json.dumps([before, live()]))
        profiler.stop()
        """,
        library,
    )
    before, after = json.loads(done.out)
    # The end that is cut off is not seen: nobody asks for it by its address.
    assert before == pytest.approx(2 * 5 * 40_960_000, rel=0.03)
    assert after < 1e6


def test_a_mapping_given_back_by_a_size_within_its_last_page(tmp_path, library):
    """The kernel takes whole pages: nothing of it lives on."""
    done = profiled(
        tmp_path,
        """
        library = load(sys.argv[1])
        profiler.start()
        kept = library.keep(int(sys.argv[2]), 1000, 1 << 20)
        before = live()
        library.drop_rounded(kept)
        print(json.dumps([before, live()]))
        profiler.stop()
        """,
        library,
        WAYS.index("mmap"),
    )
    before, after = json.loads(done.out)
    assert before > 900e6 and after < 1e6


HELD = """
    import threading, warnings
    warnings.simplefilter("ignore")     # of a fork with threads
    library = load(sys.argv[1])
    iterate = ctypes.CDLL(None).dl_iterate_phdr
    inside, at_end, ended = (threading.Event() for _ in range(3))

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    def look(info, size, data):
        inside.set()
        at_end.wait(20)
        return 1

    def hold():
        iterate(look, None)
        ended.set()

    profiler.start()
    threading.Thread(target=hold).start()
    inside.wait()
    time.sleep(0.2)                     # some ticks, which wait for the loader
    child = os.fork()
    if child == 0:
        time.sleep(0.5)                 # it starts on a thread of its own
        started = profiler.status()["heap"]["native_slots"] > 0
        os._exit(0 if os.fork() == 0 or (started and os.wait()[1] == 0) else 1)
    at_end.set()
    was_held = not ended.is_set()
    ended.wait()
    print(json.dumps([was_held, os.waitpid(child, 0)[1]]))
    profiler.stop()
"""


def test_a_fork_while_the_program_holds_the_loader(tmp_path, library):
    """A callback of dl_iterate_phdr in Python (threadpoolctl has one) needs the GIL, which the
    fork has. It does not wait for the loader, and the child, in which nobody gives that back, not
    either: its slots are its parent's."""
    done = profiled(tmp_path, HELD, library, timeout=60, PYROMETER_STACK_ENABLED="true")
    assert json.loads(done.out) == [True, 0]


@pytest.mark.parametrize("options", [("-Wl,-z,now",), ("-Wl,-z,lazy",), ("-fno-plt",)])
def test_slots_are_put_back(tmp_path, options):
    """While the profiler runs they hold hooks, before and after what they held."""
    library = build(LIBRARY, tmp_path / "libslots.so", *options)
    done = profiled(
        tmp_path,
        """
        library = load(sys.argv[1])
        def slots():
            words = (ctypes.c_size_t * 32)()
            library.read_slots(words, 32)
            return list(words)
        library.churn(0, 1, 64)  # a lazy slot is bound by its first call
        library.churn(7, 1, 4096)
        seen = []
        for _ in range(3):
            seen.append(slots())
            profiler.start()
            seen.append(slots())
            profiler.stop(flush=False)
            seen.append(slots())
        print(json.dumps(seen))
        """,
        library,
    )
    seen = json.loads(done.out)
    lazy = any("lazy" in option for option in options)
    for before, during, after in zip(seen[::3], seen[1::3], seen[2::3], strict=True):
        assert sum(one != other for one, other in zip(before, during, strict=True)) >= 4
        if not lazy:
            assert before == after
    assert seen[2] == seen[5] == seen[8]  # what was lazy is bound by then


def test_off_by_default(tmp_path, library):
    done = profiled(
        tmp_path,
        """
        library = load(sys.argv[1])
        words = [(ctypes.c_size_t * 32)() for _ in range(2)]
        library.churn(0, 1, 64)
        library.read_slots(words[0], 32)
        profiler.start()
        library.churn(0, 10_000, 64_000)
        library.read_slots(words[1], 32)
        assert list(words[0]) == list(words[1])
        assert "native_slots" not in profiler.status()["heap"]
        profiler.stop()
        """,
        library,
        PYROMETER_NATIVE_HEAP_ENABLED=None,
    )
    assert of_domain(done.samples(), "native") == []


def test_another_preload(tmp_path, library):
    """A library that stands in front of malloc sees each call once, whatever we do, and is seen
    through: it calls the C library by a slot of its own."""
    source = tmp_path / "preload.c"
    source.write_text(
        """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stddef.h>
        extern void *__libc_malloc(size_t);
        extern void __libc_free(void *);
        static long calls;
        long malloc_calls(void) { return calls; }
        void *malloc(size_t size) { __atomic_fetch_add(&calls, 1, 0); return __libc_malloc(size); }
        void free(void *block) { __libc_free(block); }
        """
    )
    preload = build(source, tmp_path / "libinfront.so")
    done = profiled(
        tmp_path,
        """
        library, front = load(sys.argv[1]), ctypes.CDLL(sys.argv[2])
        profiler.start()
        before = front.malloc_calls()
        library.churn(0, 3_000_000, 10_240)
        after = front.malloc_calls()
        profiler.stop()
        print(json.dumps(after - before))
        """,
        library,
        preload,
        LD_PRELOAD=str(preload),
    )
    assert 3_000_000 <= json.loads(done.out) < 3_000_500
    native = of_domain(done.samples(), "native")
    assert sum(s.values["alloc-space"] for s in native) == pytest.approx(30_720e6, rel=0.07)


def test_fork(tmp_path, library):
    """The child has its own blocks in its profile and none of its parent's; both go on."""
    done = profiled(
        tmp_path,
        """
        library = load(sys.argv[1])
        profiler.start()
        def parent(): return library.keep(0, 100_000, 960)
        def child(): return library.keep(0, 50_000, 960)
        kept = parent()
        pid = os.fork()
        if pid == 0:
            profiler.flush(30)  # a child begins a little later, or when it is asked for something
            more = child()
            sys.exit(0)
        os.waitpid(pid, 0)
        before = live()
        library.drop(kept)
        print(json.dumps([pid, before, live()]))
        profiler.stop()
        """,
        library,
    )
    pid, before, after = json.loads(done.out)
    live = by_function(of_domain(done.samples(pid), "native"), "heap-space")
    assert live["child"] == pytest.approx(48e6, rel=0.05)
    assert live["parent"] == 0
    assert before == pytest.approx(96e6, rel=0.05)
    assert after < 2e6


@pytest.mark.parametrize("preload", ["", JEMALLOC])
def test_br_052_threads_allocate(tmp_path, library, preload):
    """With the profiler starting and stopping all the time, under other allocators too."""
    turns = int(os.environ.get("PYROMETER_NATIVE_TURNS", "40"))
    profiled(
        tmp_path,
        """
        import threading
        slow = load(sys.argv[1])
        library = ctypes.CDLL(sys.argv[1])  # without the GIL
        library.keep.restype = ctypes.c_void_p
        library.drop.argtypes = [ctypes.c_void_p]
        going = True
        def work(way):
            while going:
                library.drop(library.keep(way, 200, ctypes.c_size_t(4096)))
                slow.churn(way, 50, 640)
        threads = [threading.Thread(target=work, args=(way,)) for way in range(8)]
        for thread in threads: thread.start()
        for _ in range(int(sys.argv[2])):
            profiler = Profiler()
            profiler.start()
            profiler.stop(flush=False)
        profiler = Profiler()
        profiler.start()
        time.sleep(0.5)
        going = False
        for thread in threads: thread.join()
        left = live()
        profiler.stop()
        assert left < 20e6, left
        """,
        library,
        turns,
        timeout=60 + 3 * turns,
        **({"LD_PRELOAD": preload} if preload else {}),
    )


def test_br_051_libraries_come_and_go(tmp_path, library):
    """Copies of a library come and go while threads allocate and ticks look for them."""
    done = profiled(
        tmp_path,
        """
        import _ctypes, shutil, threading
        library = load(sys.argv[1])
        copies = [f"{os.getcwd()}/copy{i}.so" for i in range(20)]
        for copy in copies: shutil.copyfile(sys.argv[1], copy)
        going = True
        def work():
            while going: library.churn(0, 1000, 1024)
        threads = [threading.Thread(target=work) for _ in range(2)]
        profiler.start()
        for thread in threads: thread.start()
        until = time.monotonic() + float(sys.argv[2])
        rounds = 0
        while time.monotonic() < until:
            loaded = [load(copy) for copy in copies]
            kept = [copy.keep(0, 100, 9600) for copy in loaded]
            for copy, blocks in zip(loaded, kept): copy.drop(blocks)
            for copy in loaded: _ctypes.dlclose(copy._handle)
            rounds += 1
        going = False
        for thread in threads: thread.join()
        print(json.dumps([rounds, live()]))
        profiler.stop()
        """,
        library,
        os.environ.get("PYROMETER_NATIVE_SECONDS", "5"),
        PYROMETER_STACK_ENABLED="true",
        PYROMETER_SAMPLING_INTERVAL="1ms",
        timeout=300,
    )
    rounds, left = json.loads(done.out)
    assert rounds > 0
    assert left < 5e6
