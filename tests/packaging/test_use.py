"""The installed package in use: what importing costs, what switched off means, what it needs."""

import os
import subprocess
import sys
import textwrap

import pytest
from conftest import ROOT, clean, succeed

BUSY = """
import time
def burn():
    end = time.process_time() + 0.4
    while time.process_time() < end:
        pass
burn()
"""


def python(package, source, *options, **settings):
    """Runs a program in the bare environment; its end, output and errors."""
    return subprocess.run(
        [str(package.python), *options, "-c", textwrap.dedent(source)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **settings,
    )


def test_br_163_works_without_a_compiler_or_anything_else_on_path(package, tmp_path):
    commands = str(package.python.parent)
    environment = {"PATH": commands, "PYROMETER_OUTPUT_PPROF": str(tmp_path / "a")}
    command = [package.program, "run", package.python, "-c", BUSY]
    succeed(*command, env=environment, cwd=tmp_path)
    (profile,) = tmp_path.glob("a.*.pprof")
    report = succeed(package.program, "report", "--type", "cpu-time", profile, env=environment)
    assert "burn" in report
    page = tmp_path / "page.html"
    succeed(package.program, "flamegraph", profile, "-o", page, env=environment)
    assert "burn" in page.read_text("utf-8")


def test_typed_and_found_by_type_checkers(package):
    assert (package.folder / "py.typed").is_file()
    assert (package.folder / "_native.pyi").is_file()


def test_importing_the_package_loads_nothing(package):
    source = """
        import sys
        before = set(sys.modules)
        import pyrometer
        print(sorted(set(sys.modules) - before))
        assert len(__import__("os").listdir("/proc/self/task")) == 1
    """
    done = python(package, source)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['pyrometer']\n", "")


def test_starting_loads_the_standard_library_only(package, tmp_path):
    """BR-160: no module of anybody else, so none that could clash with the program's."""
    source = """
        import sys
        import pyrometer.auto
        known = sys.stdlib_module_names | {"pyrometer", "__main__", "sitecustomize"}
        names = {name.partition(".")[0] for name in sys.modules}
        print(sorted(name for name in names - known if not name.startswith("__editable__")))
        print("logging" in sys.modules, "threading" in sys.modules)
    """
    done = python(package, source, env=clean(PYROMETER_OUTPUT_PPROF=str(tmp_path / "a")))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "[]"


@pytest.mark.parametrize("version", ["3.20.3", "4.25.8", "5.29.5"])
def test_br_160_the_program_may_have_any_protobuf(package, version, tmp_path):
    """Before, during and after: each major release has a runtime that clashed with others."""
    libraries = tmp_path / "libraries"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    succeed(*pip, "--no-deps", "--target", libraries, f"protobuf=={version}")
    source = """
        import google.protobuf
        from google.protobuf import descriptor_pb2, struct_pb2, text_format
        import pyrometer.auto
        from google.protobuf import wrappers_pb2
        import time
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            value = struct_pb2.Struct()
            value.update({"a": 1, "b": [True, "x"]})
            again = struct_pb2.Struct.FromString(value.SerializeToString())
            assert again == value and text_format.MessageToString(again)
            message = descriptor_pb2.FileDescriptorProto(name="x.proto", package="y")
            assert descriptor_pb2.FileDescriptorProto.FromString(message.SerializeToString())
        print(google.protobuf.__version__, wrappers_pb2.Int32Value(value=3).value)
    """
    settings = {"PYTHONPATH": str(libraries), "PYROMETER_OUTPUT_PPROF": str(tmp_path / "a")}
    alone = clean(PYROMETER_ENABLED="false", **settings)
    if python(package, source, "-W", "ignore", env=alone).returncode != 0:
        pytest.skip("this protobuf does not work on this Python, without a profiler neither")
    done = python(package, source, "-W", "ignore", env=clean(**settings))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{version} 3\n"
    assert list(tmp_path.glob("a.*.pprof"))


@pytest.mark.parametrize(
    "setting",
    [{"PYROMETER_ENABLED": "0"}, {"PYROMETER_ENABLED": "false"}, {"DD_PROFILING_ENABLED": "no"}],
    ids=lambda setting: "=".join(*setting.items()),
)
@pytest.mark.parametrize("way", ["import", "run"])
def test_br_165_switched_off_there_is_nothing(package, tmp_path, setting, way):
    source = """
        import sys
        if sys.argv[1] == "import":
            import pyrometer.auto
        import logging, os, threading
        print(len(os.listdir("/proc/self/task")), threading.active_count())
        import asyncio, builtins, gc, signal
        from concurrent.futures import ThreadPoolExecutor
        own = [f for f in sys.meta_path + sys.path_hooks + gc.callbacks if "pyrometer" in repr(f)]
        things = (threading.Lock, threading.Thread.start, asyncio.Lock.acquire, os.fork,
                  builtins.__import__, ThreadPoolExecutor.submit, threading.excepthook)
        own += [t for t in things if "pyrometer" in repr(getattr(t, "__module__", t))]
        own += [n for n in signal.valid_signals() if "pyrometer" in repr(signal.getsignal(n))]
        monitoring = getattr(sys, "monitoring", None)
        own += [i for i in range(6) if monitoring is not None and monitoring.get_tool(i)]
        assert not own, own
        print("pyrometer._native" in sys.modules, "pyrometer.profiler" in sys.modules)
        with open("/proc/self/maps") as maps:
            print("_native" in maps.read())
    """
    command = [package.python, "-c", textwrap.dedent(source), way]
    if way == "run":
        command = [package.program, "run", *command]
    done = subprocess.run(
        list(map(str, command)),
        env=clean(PYTHONWARNINGS="error", **setting),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1 1\nFalse False\nFalse\n"
    assert not list(tmp_path.iterdir())


def test_br_165_switched_off_the_import_takes_no_time(package):
    """At most a millisecond, in CPU time of the best of some."""
    source = """
        import time
        start = time.process_time()
        import pyrometer.auto
        print(time.process_time() - start)
    """
    environment = clean(PYROMETER_ENABLED="false")
    times = [float(python(package, source, env=environment).stdout) for _ in range(9)]
    assert min(times) <= 0.001, times


def test_br_165_started_there_is_one_line(package, tmp_path):
    """The line that says it runs; 10,000 locks without a name and 200 threads add none."""
    source = """
        import logging
        logging.basicConfig(level=logging.DEBUG)
        import pyrometer.auto, threading
        locks = [threading.Lock() for _ in range(10_000)]
        for lock in locks:
            with lock:
                pass
        threads = [threading.Thread(target=locks[0].locked) for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """
    done = python(package, source, env=clean(PYROMETER_OUTPUT_PPROF=str(tmp_path / "a")))
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and ":pyrometer:" in lines[0], done.stderr


def test_this_interpreter_is_what_the_tables_were_made_from():
    """Opcodes and structures, checked in for all versions, against the one that runs this."""
    succeed(sys.executable, ROOT / "tools" / "gen_bytecode.py", "--check")
    include = succeed(
        sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('include'))"
    ).strip()
    assert os.path.exists(os.path.join(include, "internal"))
    succeed(sys.executable, ROOT / "tools" / "gen_layout.py", "--check", include)
