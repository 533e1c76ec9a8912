"""Reads objects of this process through the production code and compares them with Python's view.

    python3.X tests/support/check_objects.py OBJECTS_PROBE.so

Exit 1 on the first difference. Covers every str kind, bytes, ints, type names of all kinds of
classes, instance attributes, thread names (also while threads come and go) and the exception that
a thread is handling.
"""

import ctypes
import sys
import threading
import time

OK, ENOENT, ENOTSUP = 0, -9, -7
TORN = (-14, -5, -4)  # ETORN, EBAD, EFAULT: the registry changed in every try


class Probe:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.objects_open.restype = ctypes.c_void_p
        self.library.objects_name.restype = ctypes.c_char_p
        self.library.objects_count.restype = ctypes.c_size_t
        runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
        why = ctypes.create_string_buffer(300)
        self.handle = ctypes.c_void_p(
            self.library.objects_open(
                ctypes.c_uint64(runtime), ctypes.c_uint32(sys.hexversion), why, ctypes.c_size_t(300)
            )
        )
        assert self.handle.value, why.value

    def string(self, function, address, size=4096):
        out = ctypes.create_string_buffer(size)
        status = getattr(self.library, function)(
            self.handle, ctypes.c_uint64(address), out, ctypes.c_size_t(size)
        )
        return out.value.decode() if status == OK else status

    def integer(self, value):
        out = ctypes.c_uint64()
        sign = self.library.objects_int(self.handle, ctypes.c_uint64(id(value)), ctypes.byref(out))
        return sign, out.value

    def attribute(self, value, name):
        out = ctypes.c_uint64()
        status = self.library.objects_attribute(
            self.handle, ctypes.c_uint64(id(value)), name.encode(), ctypes.byref(out)
        )
        return out.value if status == OK else status

    def refresh(self):
        return self.library.objects_refresh(self.handle)

    def name(self, ident):
        name = self.library.objects_name(self.handle, ctypes.c_uint64(ident))
        return None if name is None else name.decode()


class Plain:
    def __init__(self, **values):
        self.__dict__.update(values)

    class Inner(Exception):
        pass


class Straight:
    def __init__(self):
        self.first = "one"
        self.second = [2]


class Slots:
    __slots__ = ("first",)


class Text(str):
    pass


class Worker(threading.Thread):
    pass


def check_values(probe):
    texts = [
        "",
        "a",
        "ascii " * 50,
        "caf\xe9",
        "\u4e16\u754c" * 100,
        "\U0001f600x" * 70,
        "\xff" * 300,
        sys.intern("interned_name"),
        Text("subclass"),
        Text("\u4e16"),
        Text(""),
    ]
    for text in texts:
        assert probe.string("objects_text", id(text)) == text, text
    assert probe.string("objects_text", id("a\0b\ud800c")) == "a\ufffdb\ufffdc"
    assert probe.string("objects_text", id("\u4e16\u754c\u4e16"), 8) == "\u4e16\u754c"
    assert probe.string("objects_text", id("abcdef"), 4) == "abc"
    for data in (b"", b"x", bytes(range(256)) * 10):
        out = ctypes.create_string_buffer(3000)
        length = ctypes.c_size_t()
        status = probe.library.objects_bytes(
            probe.handle,
            ctypes.c_uint64(id(data)),
            out,
            ctypes.c_size_t(3000),
            ctypes.byref(length),
        )
        assert (status, out.raw[: length.value]) == (OK, data)
    for number in (0, 1, -1, 5, 2**30 - 1, 2**30, 2**59, -(2**45), 2**60 - 1):
        assert probe.integer(number) == (int(number < 0), abs(number)), number
    assert probe.integer(2**100)[0] < 0


def check_types(probe):
    import collections
    import datetime
    import json
    import re

    names = {
        ValueError: "ValueError",
        int: "int",
        type: "type",
        json.JSONDecodeError: "json.decoder.JSONDecodeError",
        Plain: "__main__.Plain",
        Plain.Inner: "__main__.Plain.Inner",
        datetime.date: "datetime.date",
        collections.OrderedDict: "collections.OrderedDict",
        re.Pattern: "re.Pattern",
        threading.Thread: "threading.Thread",
        type(threading.RLock()): "_thread.RLock",
        type("D\xe9", (), {"__module__": "m\xf6d"}): "m\xf6d.D\xe9",
        type("NoModule", (), {"__module__": 5}): "NoModule",
        type("B", (Exception,), {"__module__": "builtins"}): "B",
    }
    for kind, name in names.items():
        assert probe.string("objects_type_name", id(kind)) == name, (
            name,
            probe.string("objects_type_name", id(kind)),
        )


def check_attributes(probe):
    straight, mixed = Straight(), Straight()
    assert probe.attribute(straight, "first") == id(straight.first)
    assert probe.attribute(straight, "second") == id(straight.second)
    assert probe.attribute(straight, "third") == ENOENT
    mixed.third = "three"
    assert probe.attribute(mixed, "third") == id(mixed.third)
    assert mixed.__dict__  # now it has a dict object
    assert probe.attribute(mixed, "second") == id(mixed.second)
    del mixed.second
    assert probe.attribute(mixed, "second") == ENOENT
    many = Plain(**{f"name{i}": i + 1000 for i in range(900)})
    assert probe.attribute(many, "name777") == id(many.name777)
    general = Plain(**{"x": "y"})
    general.__dict__[5] = "not a string"
    general.late = "late"
    assert probe.attribute(general, "late") == id(general.late)
    assert probe.attribute(Slots(), "first") == ENOTSUP
    assert probe.attribute(threading, "_active") != id(
        threading._active
    )  # no managed dict: refused


def expect_names(probe):
    """All threads alive have the names that threading knows; the probe has no others."""
    assert probe.refresh() == OK
    expected = {thread.ident: thread.name for thread in threading.enumerate()}
    got = {ident: probe.name(ident) for ident in expected}
    assert got == expected, (got, expected)
    assert probe.library.objects_count(probe.handle) == len(expected)


def check_threads(probe):
    go = threading.Event()
    threads = [
        threading.Thread(target=go.wait, name=name)
        for name in [
            "plain",
            "caf\xe9 \u4e16\u754c \U0001f600",
            "long " * 100,
            "",
            "ThreadPoolExecutor-0_17",
        ]
    ]
    threads += [Worker(target=go.wait, name="subclass"), threading.Thread(target=go.wait)]
    threads += [threading.Thread(target=go.wait, name=Text("text subclass"))]
    for thread in threads:
        thread.start()
    import _thread

    dummy = []

    def make_dummy():
        dummy.append(threading.current_thread())
        go.wait()

    _thread.start_new_thread(make_dummy, ())
    while not dummy:
        time.sleep(0.001)
    expect_names(probe)
    threads[0].name = "renamed"
    assert threads[1].__dict__
    threads[2].extra = {f"a{i}": i for i in range(50)}
    vars(threads[3]).update({f"a{i}": i for i in range(50)})
    vars(threads[4])[7] = 8
    expect_names(probe)
    more = [threading.Thread(target=go.wait, name=f"more {i}") for i in range(600)]
    for thread in more:
        thread.start()
    expect_names(probe)
    best = min(timed(probe) for _ in range(20))
    print(f"  {threading.active_count()} threads: {best * 1e6:.0f} us a refresh")
    go.set()
    for thread in threads + more:
        thread.join()
    while threading.active_count() > 2:
        time.sleep(0.01)
    assert probe.library.objects_refresh_at(probe.handle, ctypes.c_uint64(0)) < 0
    expect_names(probe)


def timed(probe):
    start = time.perf_counter()
    probe.refresh()
    return time.perf_counter() - start


def check_churn(probe):
    """While threads come and go, a name that is given belongs to that thread."""
    stop = threading.Event()
    alive = {}

    def short(number):
        ident = threading.get_ident()
        alive[ident] = f"churn {number}"
        time.sleep(0.002)
        del alive[ident]

    def make():
        number = 0
        while not stop.is_set():
            started = []
            for _ in range(20):
                number += 1
                started.append(
                    threading.Thread(target=short, args=(number,), name=f"churn {number}")
                )
                started[-1].start()
            for thread in started:
                thread.join()

    maker = threading.Thread(target=make, name="maker")
    maker.start()
    end = time.monotonic() + 3
    counts = {}
    checked = 0
    main = threading.get_ident()
    try:
        while time.monotonic() < end:
            before = dict(alive)
            status = probe.refresh()
            after = dict(alive)
            counts[status] = counts.get(status, 0) + 1
            assert status == OK or status in TORN, status
            assert probe.name(main) == "MainThread"
            for ident, name in before.items() if status == OK else ():
                if after.get(ident) == name:  # alive all the time
                    checked += 1
                    assert probe.name(ident) == name, (probe.name(ident), name)
    finally:
        stop.set()
        maker.join()
    print(f"  churn: {counts}, {checked} names right")
    assert checked > 100


def check_exception(probe):
    out = {}
    go, done = threading.Event(), threading.Event()

    def generator():
        yield 1
        go.set()
        done.wait()
        yield 2

    def handle(error, through_generator):
        try:
            raise error
        except BaseException:
            if through_generator:
                list(generator())
            else:
                go.set()
                done.wait()

    for error, through, name in (
        (ValueError(), False, "ValueError"),
        (Plain.Inner(), False, "__main__.Plain.Inner"),
        (KeyError(), True, "KeyError"),
    ):
        go.clear()
        done.clear()
        thread = threading.Thread(target=handle, args=(error, through))
        thread.start()
        go.wait()
        assert probe.string("objects_exception", thread.ident) == name, name
        done.set()
        thread.join()
    assert probe.string("objects_exception", threading.get_ident()) == ENOENT
    return out


def main():
    probe = Probe(sys.argv[1])
    print(sys.version.split()[0])
    for check in (
        check_values,
        check_types,
        check_attributes,
        check_threads,
        check_churn,
        check_exception,
    ):
        check(probe)
        print(f"  {check.__name__}: good")
    probe.library.objects_close(probe.handle)


if __name__ == "__main__":
    main()
