"""Samples threads that are known to be inside C functions, and judges each name that is found.

    python3.13 tests/support/check_native_leaf.py LEAF_PROBE.so [SAMPLES]

The oracle is the source: a sample stands at an instruction, the instruction has a position, the
text there is a call expression, and EXPECT says what C function that text calls. Any other name is
wrong, and the run fails. Samples in other files' code (threading.py, selectors.py) are judged the
same way, by the text of their source.
"""

import ast
import asyncio
import ctypes
import functools
import hashlib
import queue
import re
import select
import socket
import subprocess
import sys
import threading
import time
import types
import zlib

OUTCOMES = ("torn", "no site", "no call", "unknown", "python", "native")
NATIVE, KIND_NONE, KIND_CALL, KIND_EXIT = 5, 0, 2, 6

DATA = bytes(range(256)) * 400
TEXT = "lorem ipsum dolor " * 4000
WORDS = TEXT.split()
NUMBERS = [(n * 7919) % 10007 for n in range(20000)]
PAIRS = [(n, n) for n in range(5000)]
NAMED = {f"name{n}": n for n in range(3000)}
PATTERN = re.compile(r"(?:a|b)*c")
HASH = hashlib.sha256()
COMPRESS = functools.partial(zlib.compress, DATA)
REPLACE = DATA.replace
FROM_BYTES = int.from_bytes
STOP = threading.Event()


# ---- workloads: a function each; it runs until STOP is set ---------------------------------------

def busy_compress():
    while not STOP.is_set():
        zlib.compress(DATA)


def busy_sorted():
    while not STOP.is_set():
        sorted(NUMBERS)


def busy_sorted_keywords():
    while not STOP.is_set():
        sorted(NUMBERS, reverse=True)


def busy_sorted_star():
    arguments = (NUMBERS,)
    while not STOP.is_set():
        sorted(*arguments)


def busy_sorted_star_keywords():
    arguments, keywords = (NUMBERS,), {"reverse": True}
    while not STOP.is_set():
        sorted(*arguments, **keywords)


def busy_sort_key():
    while not STOP.is_set():
        numbers = list(NUMBERS)
        numbers.sort(key=str)


def busy_sort_python_key():
    while not STOP.is_set():
        numbers = list(NUMBERS)
        numbers.sort(key=lambda number: number ^ 5)


def busy_dict():
    while not STOP.is_set():
        dict(PAIRS)


def busy_dict_star():
    arguments = (PAIRS,)
    while not STOP.is_set():
        dict(*arguments)


def busy_dict_keywords():
    while not STOP.is_set():
        dict(**NAMED)


def busy_replace():
    while not STOP.is_set():
        DATA.replace(b"\x01", b"\x02\x03")


def busy_bound():
    while not STOP.is_set():
        REPLACE(b"\x01", b"\x02\x03")


def busy_match():
    while not STOP.is_set():
        PATTERN.match("ab" * 3000)


def busy_sha():
    while not STOP.is_set():
        hashlib.sha256(DATA)


def busy_hash_update():
    while not STOP.is_set():
        HASH.update(DATA)


def busy_bytes():
    while not STOP.is_set():
        bytes(4000000)


def busy_join():
    while not STOP.is_set():
        " ".join(WORDS)


def busy_nested():
    while not STOP.is_set():
        max(1, sum(sorted(list(zlib.compress(DATA, 1)), reverse=bool(len(NUMBERS)))))


def busy_chain():
    while not STOP.is_set():
        TEXT.replace("o", "oo").upper().split(" ")


def busy_comprehension():
    while not STOP.is_set():
        [zlib.compress(DATA) + b"x" for _ in range(3)]


def busy_with_try():
    lock = threading.Lock()
    while not STOP.is_set():
        try:
            with lock:
                for number in (1, 2):
                    try:
                        zlib.decompress(zlib.compress(DATA) * number)
                        zlib.decompress(DATA)
                    except zlib.error as error:
                        sorted(NUMBERS, key=repr if error else None)
                    else:
                        sum(NUMBERS)
        finally:
            PATTERN.match("ab" * 300)


def generate():
    while True:
        got = yield zlib.compress(DATA)
        if got:
            sorted(NUMBERS)


def busy_generator():
    generator = generate()
    next(generator)
    while not STOP.is_set():
        generator.send(True)


async def crunch():
    sorted(NUMBERS)
    await asyncio.sleep(0)
    return zlib.compress(DATA)


async def crunch_all():
    while not STOP.is_set():
        await asyncio.gather(crunch(), crunch())
        async with asyncio.Lock():
            sum(NUMBERS)


def busy_async():
    asyncio.run(crunch_all())


def busy_partial():
    while not STOP.is_set():
        COMPRESS()


def busy_class_method():
    while not STOP.is_set():
        dict.fromkeys(NUMBERS, 1)
        FROM_BYTES(DATA, "little")


def busy_slot_wrappers():
    bound_add = NUMBERS.__add__
    while not STOP.is_set():
        bound_add(NUMBERS)
        list.__add__(NUMBERS, NUMBERS)


def busy_computed():
    while not STOP.is_set():
        getattr(zlib, "compress")(DATA)  # noqa: B009 (the callee shall be computed)
        type(NUMBERS)(NUMBERS)


def busy_large_argument():
    while not STOP.is_set():
        max(NUMBERS[0], NUMBERS[1], (sorted(NUMBERS), 3)[1], *NUMBERS)


def blocked_sleep():
    while not STOP.is_set():
        time.sleep(0.05)


def blocked_acquire():
    lock = threading.Lock()
    while not STOP.is_set():
        lock.acquire(timeout=0.05)


def blocked_acquire_positional():
    lock = threading.Lock()
    while not STOP.is_set():
        lock.acquire(True, 0.05)


def hold_rlock(lock):
    with lock:
        STOP.wait()


def blocked_rlock():
    lock = threading.RLock()
    threading.Thread(target=hold_rlock, args=(lock,)).start()
    time.sleep(0.02)
    while not STOP.is_set():
        lock.acquire(timeout=0.05)


HELD = threading.Lock()


def hold():
    while not STOP.is_set():
        HELD.acquire()
        STOP.wait(0.02)
        HELD.release()
        STOP.wait(0.001)


def blocked_with_lock():
    helper = threading.Thread(target=hold)
    helper.start()
    while not STOP.is_set():
        with HELD:
            pass


def blocked_recv():
    here, there = socket.socketpair()
    here.settimeout(None)
    threading.Thread(target=lambda: (STOP.wait(), there.send(b"x"))).start()
    here.recv(1)


def blocked_select():
    here, there = socket.socketpair()
    while not STOP.is_set():
        select.select([here], [], [], 0.05)


def blocked_queue():
    waiting = queue.SimpleQueue()
    threading.Thread(target=lambda: (STOP.wait(), waiting.put(1))).start()
    waiting.get()


def blocked_join():
    other = threading.Thread(target=STOP.wait)
    other.start()
    other.join()


def blocked_wait():
    STOP.wait()


def blocked_subprocess():
    child = subprocess.Popen(["sleep", "30"])
    threading.Thread(target=lambda: (STOP.wait(), child.kill())).start()
    child.wait()


class Manager:
    """Blocks in `with` by Python code: nothing native may be named for the `with` itself."""

    def __enter__(self):
        time.sleep(0.05)

    def __exit__(self, *details):
        sum(NUMBERS)


def blocked_python_manager():
    manager = Manager()
    while not STOP.is_set():
        with manager:
            pass


def raise_within(view):
    with view:
        with HELD_ONCE:
            raise KeyError


HELD_ONCE = threading.Lock()


def busy_raise_in_with():
    while not STOP.is_set():
        try:
            raise_within(memoryview(DATA))
        except KeyError:
            pass


# ---- the oracle ----------------------------------------------------------------------------------

# Text of the called expression, or of its last attribute, to the name that is right there.
EXPECT = {
    "zlib.compress": "zlib.compress", "zlib.decompress": "zlib.decompress", "sorted": "sorted",
    "sum": "sum", "max": "max", "list": "list", "dict": "dict", "bytes": "bytes", "len": "len",
    "bool": "bool", "range": "range", "next": "next", "isinstance": "isinstance", "str": "str",
    "getattr(zlib, 'compress')": "zlib.compress", "getattr": "getattr", "type": "type",
    "type(NUMBERS)": "list", "numbers.sort": "list.sort", "DATA.replace": "bytes.replace",
    "REPLACE": "bytes.replace", "PATTERN.match": "re.Pattern.match",
    "hashlib.sha256": "_hashlib.openssl_sha256", "HASH.update": "_hashlib.HASH.update",
    "' '.join": "str.join", "TEXT.replace": "str.replace", ".upper": "str.upper",
    ".split": "str.split", "COMPRESS": "functools.partial", "dict.fromkeys": "dict.fromkeys",
    "FROM_BYTES": "int.from_bytes", "generator.send": "generator.send",
    "time.sleep": "time.sleep", "lock.acquire": ("_thread.lock.acquire", "_thread.RLock.acquire"),
    "HELD": ("_thread.lock.__enter__", "_thread.lock.__exit__"),
    "HELD_ONCE": ("_thread.lock.__enter__", "_thread.lock.__exit__"),
    "lock": ("_thread.lock.__enter__", "_thread.lock.__exit__"),
    "view": ("memoryview.__enter__", "memoryview.__exit__"), "memoryview": "memoryview",
    "HELD.acquire": "_thread.lock.acquire", "HELD.release": "_thread.lock.release",
    "here.recv": "_socket.socket.recv", "select.select": "select.select",
    "waiting.get": "_queue.SimpleQueue.get", "self._handle.join": "_thread._ThreadHandle.join",
    "self._os_thread_handle.join": "_thread._ThreadHandle.join",
    "bound_add": "list.__add__", "list.__add__": "list.__add__",
    "waiter.acquire": "_thread.lock.acquire", "os.waitpid": "posix.waitpid",
    "_waitpid": "posix.waitpid", "self._selector.poll": "select.epoll.poll",
    "self._context.run": ("_contextvars.Context.run", "Context.run"),
}


def expected_of(segment):
    """The names that are right for a sample at this source text; None: the oracle cannot say."""
    try:
        node = ast.parse(segment.strip()).body[0]
    except (SyntaxError, IndexError):
        return None
    if isinstance(node, ast.With):  # 3.11 and 3.12 give a `with` the whole statement's position
        node = node.items[0].context_expr
    node = getattr(node, "value", node) if isinstance(node, ast.Expr) else node
    text = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    names = EXPECT.get(text)
    if names is None and "." in text:
        names = EXPECT.get("." + text.rsplit(".", 1)[1])
    return (names,) if isinstance(names, str) else names


class Codes:
    """All code objects that can be sampled, by address, and the source text at a unit."""

    def __init__(self):
        self.by_address, self.sources = {}, {}

    def find(self, address):
        if address not in self.by_address:
            # The sampled functions live as long as the process: their modules hold them.
            import gc
            todo = [o.__code__ for o in gc.get_objects() if isinstance(o, types.FunctionType)]
            while todo:
                code = todo.pop()
                if id(code) not in self.by_address:
                    self.by_address[id(code)] = code
                    todo += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        return self.by_address.get(address)

    def segment(self, code, unit):
        if code.co_filename not in self.sources:
            try:
                with open(code.co_filename, encoding="utf-8") as file:
                    self.sources[code.co_filename] = file.read().split("\n")
            except OSError:
                self.sources[code.co_filename] = None
        lines = self.sources[code.co_filename]
        positions = list(code.co_positions())
        if lines is None or unit >= len(positions) or None in positions[unit]:
            return ""
        line, end_line, column, end_column = positions[unit]
        taken = [text.encode() for text in lines[line - 1:end_line]]
        taken[-1] = taken[-1][:end_column]
        taken[0] = taken[0][column:]
        return b"\n".join(taken).decode()


class Sample(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint64), ("unit", ctypes.c_uint32), ("outcome", ctypes.c_uint8),
                ("kind", ctypes.c_uint8), ("opcode", ctypes.c_uint8), ("stable", ctypes.c_uint8),
                ("depth", ctypes.c_uint32), ("name", ctypes.c_char * 256)]


def load_probe(path):
    probe = ctypes.CDLL(path)
    probe.probe_open.restype = ctypes.c_void_p
    probe.probe_open.argtypes = [ctypes.c_uint64, ctypes.c_uint32, ctypes.c_char_p,
                                 ctypes.c_size_t]
    probe.probe_run.restype = None
    probe.probe_run.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t,
                                ctypes.c_uint32, ctypes.c_void_p]
    return probe


def run_workload(probe, handle, workload, count):
    STOP.clear()
    thread = threading.Thread(target=workload)
    thread.start()
    time.sleep(0.05)
    samples = (Sample * count)()
    probe.probe_run(handle, thread.native_id, count, 1000, samples)
    STOP.set()
    thread.join()
    return samples


def main():
    probe = load_probe(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    why = ctypes.create_string_buffer(256)
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    handle = probe.probe_open(runtime, sys.hexversion, why, 256)
    if not handle:
        sys.exit(f"no layout: {why.value.decode()}")
    codes = Codes()
    wrong_total, judged_total, unjudged_names = 0, 0, {}
    print(sys.version.split()[0])
    for name, workload in sorted(globals().items()):
        if not name.startswith(("busy_", "blocked_")) or only not in name:
            continue
        outcomes, names, wrong, judged = [0] * len(OUTCOMES), {}, {}, 0
        for sample in run_workload(probe, handle, workload, count):
            outcomes[sample.outcome] += 1
            if sample.outcome != NATIVE:
                continue
            found = sample.name.decode()
            names[found] = names.get(found, 0) + 1
            code = codes.find(sample.code)
            segment = codes.segment(code, sample.unit) if code else ""
            expected = expected_of(segment)
            if expected is None:
                key = (found, segment)
                unjudged_names[key] = unjudged_names.get(key, 0) + 1
                continue
            judged += 1
            if found not in expected:
                wrong[(found, segment)] = wrong.get((found, segment), 0) + 1
        wrong_total += sum(wrong.values())
        judged_total += judged
        share = 100 * outcomes[NATIVE] / count
        top = ", ".join(f"{n} {c}" for n, c in sorted(names.items(), key=lambda i: -i[1])[:4])
        rest = ", ".join(f"{o} {c}" for o, c in zip(OUTCOMES, outcomes) if c and o != "native")
        print(f"  {name:28} {share:5.1f} %  {top}  | {rest}")
        for (found, segment), times in wrong.items():
            print(f"    WRONG {times} x {found!r} at {segment!r}")
    print(f"  {judged_total} names judged, {wrong_total} wrong; not judged:")
    for (found, segment), times in sorted(unjudged_names.items(), key=lambda i: -i[1])[:25]:
        print(f"    {times} x {found!r} at {segment!r}")
    return 1 if wrong_total or not judged_total else 0


if __name__ == "__main__":
    sys.exit(main())
