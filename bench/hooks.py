"""What the hooks of allocation cost, by a process that has them and has not, in turns: hooks.py
[TURNS [KEPT]]. With KEPT, only what so many objects cost that are kept, each object with its free.

Two processes that run the same loop differ by more than the hooks cost: where their memory lies,
and what the machine does meanwhile. So the allocators that were there before the start, and those
with our hooks, are exchanged to and fro in one process, in an order drawn anew for each turn.
The hooks are there most of the time: the budget of samples is one a second, and all of it would
be spent in the fourth of the time that would be theirs.
Printed: nanoseconds of CPU of the tenth of slices that met the warmest caches, and the ratio to
the slices without; "again" is without, once more, "passing" with hooks that only pass on
(pass.c): what any hook costs. Everything else of Pyrometer runs all the time.
PYROMETER_HEAP_SAMPLE_SIZE=1GiB leaves the hooks alone, without samples. Needs the environment that
bench/run makes.
"""

import ctypes
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable

import measure

import pyrometer

DOMAINS = (0, 1, 2)  # RAW, MEM, OBJ of PyMemAllocatorDomain
MOSTLY = 10  # slices with the hooks, for each one of another kind


class Allocator(ctypes.Structure):  # PyMemAllocatorEx
    _fields_ = [(name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free")]


for function in (ctypes.pythonapi.PyMem_GetAllocator, ctypes.pythonapi.PyMem_SetAllocator):
    function.argtypes, function.restype = [ctypes.c_int, ctypes.POINTER(Allocator)], None


def allocators() -> list[Allocator]:
    found = [Allocator() for _ in DOMAINS]
    for domain in DOMAINS:
        ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(found[domain]))
    return found


def install(those: list[Allocator]) -> None:
    for domain in DOMAINS:
        ctypes.pythonapi.PyMem_SetAllocator(domain, ctypes.byref(those[domain]))


def passing(below: list[Allocator]) -> list[Allocator]:
    """Allocators that do nothing but pass on to these."""
    library = ctypes.CDLL(measure.c_library(measure.HERE / "pass.c"))
    three = Allocator * len(DOMAINS)
    three.in_dll(library, "below")[:] = below
    found = list(three.in_dll(library, "passing"))
    for one, other in zip(found, below, strict=True):
        one.ctx = other.ctx
    return found


def make_objects() -> int:
    for _ in range(2000):
        [object() for _ in range(10)]
    return 20_000


def keep_objects(count: int) -> int:
    kept = [None] * count
    for at in range(count):
        kept[at] = b"%d" % at
    return count


def request_maker() -> Callable[[], int]:
    """Requests of the Flask service, beneath as many frames as under a server."""
    os.environ["BENCH_PROFILER"] = "none"  # it runs here already
    from flask_service import app
    from werkzeug.test import EnvironBuilder

    environ = EnvironBuilder("/").get_environ()

    def below(depth: int) -> None:
        if depth > 0:
            below(depth - 1)
            return
        for _ in range(30):
            for _ in app(dict(environ), lambda status, headers, error=None: None):
                pass

    def make() -> int:
        below(12)
        return 30

    return make


def compare(
    work: Callable[[], int], kinds: dict[str, list[Allocator]], turns: int, warm: bool = True
) -> None:
    """`warm`: the work is done once before each slice, too, for the caches."""
    slices: dict[str, list[float]] = {kind: [] for kind in kinds}
    order = [*kinds, *["with"] * (MOSTLY - 1)]
    for _ in range(turns):
        random.shuffle(order)
        for kind in order:
            install(kinds[kind])
            if warm:
                work()
            began = time.thread_time_ns()
            count = work()
            slices[kind].append((time.thread_time_ns() - began) / count)
    best = {kind: sorted(values)[len(values) // 10] for kind, values in slices.items()}
    for kind, ns in best.items():
        print(f"  {kind:12}{ns:10.1f} ns  {ns / best['without']:.3f}")


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    kept = int(sys.argv[2]) if len(sys.argv) > 2 else None
    without = allocators()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYROMETER_OUTPUT_PPROF"] = os.path.join(folder, "profile")
        profiler = pyrometer.Profiler()
        profiler.start()
        kinds = {
            "without": without,
            "with": allocators(),
            "passing": passing(without),
            "again": without,
        }
        if kept is not None:
            print(f"one of {kept:,} objects kept, then freed")
            compare(lambda: keep_objects(kept), kinds, turns, warm=False)
        else:
            print("an object made and freed")
            compare(make_objects, kinds, turns * 3)
            print("one of 300,000 objects kept, then freed")
            compare(lambda: keep_objects(300_000), kinds, max(turns // 5, 10))
            print("a request of the Flask service")
            compare(request_maker(), kinds, turns)
        profiler.stop()


main()
