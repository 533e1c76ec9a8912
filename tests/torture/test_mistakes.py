"""Mistakes of the user, and interpreters that are not what they seem: one line each, no harm."""

import json
import sys

import pytest
from agent import run

STATE = """
from pyrometer import Profiler
print("running" if Profiler().status()["running"] else "off")
"""

# Makes the interpreter claim another version before the profiler looks.
OTHER_VERSION = """
import ctypes
version = ctypes.c_ulong.in_dll(ctypes.pythonapi, "Py_Version")
page = ctypes.addressof(version) & ~4095
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), 8192, 3) == 0
version.value = {}
import pyrometer.auto
"""
OFFSETS = """
import ctypes
published = (ctypes.c_ubyte * 4096).in_dll(ctypes.pythonapi, "_PyRuntime")
published[{}] = {}
import pyrometer.auto
"""


def refused(done, line):
    assert (done.code, done.out) == (0, "off\n"), done
    assert len(done.err.splitlines()) == 1 and line in done.err, done.err
    assert not list(done.folder.glob("*")) if done.folder.exists() else True


@pytest.mark.parametrize("version", [0x030A00F0, 0x031000F0, 0x040000F0, 0])
def test_br_138_unknown_python(tmp_path, version):
    done = run(tmp_path, OTHER_VERSION.format(version) + STATE)
    refused(done, "is not supported: this version of Pyrometer knows CPython 3.11 to 3.15")


def test_br_138_another_known_python(tmp_path):
    """Its headers are not those that the extension was built with."""
    other = 0x030C00F0 if sys.version_info[:2] != (3, 12) else 0x030B00F0
    refused(run(tmp_path, OTHER_VERSION.format(other) + STATE), "pyrometer is off: ")


def published():
    if sys.version_info < (3, 13):
        pytest.skip("publishes no offsets")


def test_br_015_free_threaded_python_is_refused(tmp_path):
    """Its bytecode arrays of each thread are never read."""
    published()
    done = run(tmp_path, OFFSETS.format(16, 1) + STATE)
    refused(done, "free-threaded builds of Python are not supported yet")


@pytest.mark.parametrize("at, value", [(0, 1), (8, 9), (10, 9), (11, 9)])
def test_br_016_damaged_cookie_and_version(tmp_path, at, value):
    published()
    refused(run(tmp_path, OFFSETS.format(at, value) + STATE), "pyrometer is off: the interpreter")


WORDS = {13: 73, 14: 95, 15: 111}  # of the published table, by minor version


def test_br_016_damaged_offsets(tmp_path):
    """Each word of the table damaged in turn: off with a line, or a word that is not needed."""
    published()
    source = f"""
        import ctypes, sys
        published = (ctypes.c_ubyte * 4096).in_dll(ctypes.pythonapi, "_PyRuntime")
        from pyrometer import Profiler
        for word in range(3, {WORDS[sys.version_info[1]]}):
            before = bytes(published[word * 8:word * 8 + 8])
            published[word * 8 + 1] ^= 0x80
            profiler = Profiler()
            profiler.start()
            for _ in range(2000): sum(range(20))
            profiler.stop(flush=False)
            published[word * 8:word * 8 + 8] = before
        print("alive")
        """
    done = run(tmp_path, source)
    assert (done.code, done.out) == (0, "alive\n"), done.err
    assert all(line.startswith(("pyrometer is off: ", "(")) for line in done.err.splitlines())


NONSENSE = [
    "",
    " ",
    "-1",
    "nan",
    "1e400",
    "10 parsecs",
    "\u221e",
    "0x10",
    "'1'",
    "true;false",
    "9" * 5000,
]
KINDS = [
    "ENABLED",
    "STACK_ENABLED",
    "SAMPLING_INTERVAL",
    "OVERHEAD_PCT",
    "MAX_FRAMES",
    "TIMELINE_ENABLED",
    "UPLOAD_INTERVAL",
    "OUTPUT_MAX_BYTES",
    "OUTPUT_MAX_AGE",
    "EXIT_TIMEOUT",
    "SUBPROCESSES",
]


@pytest.mark.parametrize("setting", KINDS)
def test_nonsense_settings(tmp_path, setting):
    """By keyword all in one program, and the same text by variable."""
    source = f"""
        import logging
        logging.basicConfig(format="%(levelname)s %(message)s")
        from pyrometer import Profiler
        for text in {NONSENSE!r}:
            profiler = Profiler(**{{{setting.lower()!r}: text}})
            profiler.start()
            assert profiler.status()["running"], text
            profiler.stop(flush=False)
        print("alive")
        """
    done = run(tmp_path, source, **{f"PYROMETER_{setting}": "10 parsecs"})
    assert (done.code, done.out) == (0, "alive\n"), done.err
    lines = done.err.splitlines()
    assert 2 <= len(lines) <= len(NONSENSE) + 1
    assert all(line.startswith("WARNING ") and setting in line for line in lines), lines


ARGUMENTS = """
import json
from pyrometer import Profiler
for settings in (
    dict(service="\\udcff"), dict(service="a\\0b"), dict(service="\\ud800"), {"\\udc80": 1},
    {"s\\u00e9rvice": 1}, {"": 1}, {"service\\0x": 1}, dict(service=b"\\xff"), dict(service=[]),
    dict(tags={1: None}), dict(tags=["a", "b:c"]), dict(max_frames=10**30),
    dict(upload_interval=float("inf")), dict(output_pprof=b"relative"), dict(service="x" * 10**6),
):
    profiler = Profiler(**settings)
    profiler.start()
    assert profiler.status()["running"], settings
    json.dumps(profiler.status())
    profiler.stop(flush=False)
print("alive")
"""


def test_nonsense_arguments(tmp_path):
    done = run(tmp_path, ARGUMENTS)
    assert (done.code, done.out) == (0, "alive\n"), done.err


def test_prefix_that_is_no_utf_8_by_argument(tmp_path):
    source = """
        import os, pathlib, time
        from pyrometer import Profiler
        folder = os.fsencode(os.getcwd())
        for prefix in (folder + b"/o\\xff/a", os.fsdecode(folder + b"/o\\xff/b")):
            profiler = Profiler(output_pprof=prefix)
            profiler.start()
            time.sleep(0.1)
            assert profiler.flush()
            profiler.stop()
        names = {name.split(b".")[0] for name in os.listdir(folder + b"/o\\xff")}
        assert names == {b"a", b"b"}, names
        """
    done = run(tmp_path, source)
    assert (done.code, done.err) == (0, "")


def test_objects_that_misuse_the_interface(tmp_path):
    source = """
        from pyrometer import Profiler, _native
        for call in (lambda: _native.start(1), lambda: _native.flush("x"),
                     lambda: _native.flush(-1), lambda: _native.flush(float("nan")),
                     lambda: _native.stop(),
                     lambda: Profiler("web")):
            try: call()
            except (TypeError, ValueError): continue
            raise SystemExit("accepted")
        _native.start({1: 2, "service": 3, None: "x"}, {})
        assert _native.status()["identity"]["pid"]
        _native.listen(lambda: 1 / 0)
        _native.listen(None)
        _native.stop(False)
        """
    done = run(tmp_path, source)
    assert done.code == 0, done.err


def test_logging_that_is_broken(tmp_path):
    """A handler that raises, one that starts the profiler again, and one without a stream."""
    source = """
        import logging
        from pyrometer import Profiler
        class Broken(logging.Handler):
            def emit(self, record): raise RuntimeError("broken")
        class Again(logging.Handler):
            def emit(self, record): Profiler().start(); Profiler().status()
        log = logging.getLogger("pyrometer")
        log.addHandler(Again()); log.addHandler(Broken())
        Profiler(max_frames="many").start()
        Profiler().start()
        import sys
        sys.stderr = sys.stdout = None
        log.handlers.clear()
        Profiler().start()
        """
    done = run(tmp_path, source)
    assert (done.code, done.err) == (0, "")


def test_interrupts_are_the_programs_own(tmp_path):
    """Also one that comes while the main thread does something for us."""
    source = """
        import os, shutil, time
        from pyrometer import Profiler, _native
        profiler = Profiler(output_pprof="place/app", upload_interval="1s")
        profiler.start()
        def interrupted(): raise KeyboardInterrupt
        _native.listen(interrupted)
        shutil.rmtree("place")
        open("place", "w").close()
        try:
            end = time.monotonic() + 20
            while time.monotonic() < end: time.sleep(0.01)  # 3.11 looks only after a wait
        except KeyboardInterrupt:
            print("interrupted")
        """
    done = run(tmp_path, source)
    assert (done.code, done.out) == (0, "interrupted\n")


def test_document_of_a_window_after_nonsense(tmp_path):
    source = "import pyrometer.auto, time\ntime.sleep(0.1)"
    done = run(tmp_path, source, PYROMETER_SERVICE='a"b\\c\n\x01\u2028', PYROMETER_TAGS=",:,a::b,")
    assert (done.code, done.err) == (0, "")
    (file,) = done.folder.glob("*.json")
    assert json.loads(file.read_text())["identity"]["service"] == 'a"b\\c\n\x01\u2028'


@pytest.mark.parametrize("call, kilobytes", [("start", 48), ("stop", 32), ("fork", 32)])
def test_threads_with_little_stack(tmp_path, call, kilobytes):
    """CPython lets a program give its threads 32 KiB."""
    done = run(
        tmp_path,
        f"""
import os, threading
from pyrometer import Profiler
profiler = Profiler()
if {call!r} != "start":
    profiler.start()
def fork():
    if os.fork() == 0:
        os._exit(0)
    assert os.wait()[1] == 0
calls = {{"start": profiler.start, "stop": profiler.stop, "fork": fork}}
for size in range({kilobytes} * 1024, 1 << 20, 4096):
    try:
        threading.stack_size(size)
        break
    except ValueError:  # a later one asks for more, by the system's least
        pass
thread = threading.Thread(target=calls[{call!r}])
thread.start()
thread.join()
print("alive")
""",
    )
    assert (done.code, done.out) == (0, "alive\n"), done


def test_sub_interpreter_that_starts_it(tmp_path):
    """One line, and its end leaves alone what the main interpreter started."""
    done = run(
        tmp_path,
        """
try:
    import _interpreters as interpreters
    inner = interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    inner = interpreters.create(isolated=False)
import pyrometer.auto
interpreters.run_string(inner, "import pyrometer.auto")
interpreters.destroy(inner)
"""
        + STATE,
    )
    assert (done.code, done.out) == (0, "running\n"), done
    assert "only the main interpreter can start it" in done.err and done.files()
