"""Records a memory image of this interpreter, with threads in all kinds of stacks.

    env -i PYTHONHOME=... python3.X -I -S tests/support/record_image.py IMAGE_PROBE.so FOLDER

writes FOLDER/VERSION.img and FOLDER/VERSION.txt (the stacks that a replay of the image gives) after
comparing those stacks with what sys._current_frames() says. An empty environment and, for an
interpreter below a home directory, a neutral PYTHONHOME (a symbolic link, with -s in place of -I)
keep the machine's own facts out of the image; with a PYTHONPYCACHEPREFIX and a second run it stays
small. The library is made of image_probe.c, image_stacks.c and the core from unwind/ down.

The workload is compiled under a file name of its own, so that stacks look the same everywhere.
"""

import ctypes
import os
import sys
import threading
import time


def source():
    """The workload, from the file beside this one."""
    with open(
        os.path.join(os.path.dirname(os.path.abspath(__file__)), "image_workload.py"),
        encoding="utf-8",
    ) as file:
        return file.read()


def start_threads(namespace):
    roots = [
        "sleeper",
        "waiter",
        "locked",
        "generators",
        "coroutines",
        "deep",
        "boundary",
        "handling",
        "special",
        "evaluated",
        "executed",
        "\xf1and\xfa",
        "wide",
        "no_lines",
    ]
    for name in roots:
        entered = threading.Event()
        threading.Thread(
            target=namespace[name], args=(entered.set,), name=name, daemon=True
        ).start()
        assert entered.wait(10), name


def start_subinterpreter():
    """A thread inside another interpreter."""
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    reading, writing = os.pipe()
    script = (
        f"import os, time\ndef in_other_interpreter():\n    os.write({writing}, b'x')\n"
        f"    time.sleep(3600)\nin_other_interpreter()\n"
    )
    run = getattr(interpreters, "run_string", None) or interpreters.exec

    def other():
        # Made here, because up to 3.12 its thread state keeps the ids of the thread that made it.
        run(interpreters.create(), script)

    threading.Thread(target=other, name="sub", daemon=True).start()
    os.read(reading, 1)


def expected_stacks():
    """{thread name: ["QUALNAME FILE:LINE", ...] leaf first} as Python itself tells."""
    stacks = {}
    frames = sys._current_frames()
    for thread in threading.enumerate():
        lines, frame = [], frames[thread.ident]
        while frame:
            code = frame.f_code
            line = frame.f_lineno or code.co_firstlineno
            lines.append(f"{code.co_qualname} {os.path.basename(code.co_filename)}:{line}")
            frame = frame.f_back
        stacks[thread.name] = lines
    return stacks


def parse(text):
    """{thread name: (rest of its line, frames)}. The thread that went into the other interpreter
    has a state in both; the second comes as "sub 2"."""
    stacks = {}
    for line in text.splitlines():
        if line.startswith("thread "):
            _, name, rest = line.split('"', 2)
            name = f"{name} 2" if name in stacks else name
            stacks[name] = (rest.strip(), [])
        else:
            stacks[name][1].append(line.strip())
    return stacks


def compare(got, expected):
    for name, frames in expected.items():
        rest, lines = got[name]
        native = [line for line in lines if "<native>" in line]
        lines = [line for line in lines if "<native>" not in line]
        if name == "MainThread":  # it went on to the comparison
            lines, frames = lines[1:], frames[2:]
        if "omitted" in rest:
            assert int(rest.split("omitted ")[1].split()[0]) + len(lines) == len(frames), (
                name,
                rest,
            )
            frames = frames[: len(lines)]
        assert lines == frames, (name, lines, frames)
        assert len(native) <= 1 and "no root" not in rest, (name, rest)
    assert got["handling"][0] == "handling service.Problem", got["handling"]
    assert got["sleeper"][1][0] == "time.sleep <native>:0", got["sleeper"]
    assert [line.split()[0] for line in got["sub 2"][1]] == [
        "time.sleep",
        "in_other_interpreter",
        "<module>",
    ]


def main():
    library, folder = ctypes.CDLL(sys.argv[1]), sys.argv[2]
    namespace = {"__name__": "service"}
    exec(compile(source(), "/srv/service.py", "exec"), namespace)
    start_threads(namespace)
    start_subinterpreter()
    time.sleep(0.3)  # all have gone to sleep
    path = os.path.join(folder, sys.version.split()[0])
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    status = library.image_record(
        ctypes.c_uint64(runtime),
        ctypes.c_uint32(sys.hexversion),
        os.fsencode(path + ".img"),
        os.fsencode(path + ".txt"),
    )
    assert status == 0, status
    with open(path + ".txt", encoding="utf-8") as file:
        text = file.read()
    try:
        compare(parse(text), expected_stacks())
    except BaseException:
        print(text)
        import traceback

        traceback.print_exc()
        os._exit(1)
    print(
        f"{path}.img: {os.path.getsize(path + '.img')} bytes, {text.count('thread ')} threads",
        flush=True,
    )
    os._exit(0)


if __name__ == "__main__":
    main()
