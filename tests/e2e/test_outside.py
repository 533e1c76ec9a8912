"""The stacks of a Python, read from another process by the same code that reads them inside.

The probe (tests/support/outside_probe.c) is built here from the core, so that it runs wherever the
interpreter under test does. What it prints is compared with what the target says of itself.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SOURCES = TESTS.parent / "src"
sys.path.insert(0, str(TESTS / "support"))

import record_image  # noqa: E402

TARGET = """
import ctypes, json, os, sys, time, types
sys.path.insert(0, sys.argv[1])
import record_image

def main():
    facts = {"runtime": ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime")),
             "version": sys.hexversion,
             "code_type": id(types.CodeType)}
    stacks, before = record_image.expected_stacks(), None
    while stacks != before:  # until all have gone to sleep
        time.sleep(0.3)
        stacks, before = record_image.expected_stacks(), stacks
    print(json.dumps([facts, stacks]), flush=True)
    os.read(0, 1)

namespace = {"__name__": "service"}
exec(compile(record_image.source(), "/srv/service.py", "exec"), namespace)
record_image.start_threads(namespace)
record_image.start_subinterpreter()
main()
os._exit(0)
"""

# What looks like an interpreter to the finder, and is none.
PRETENDER = """
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef VERSION
__attribute__((used)) const unsigned long Py_Version = VERSION;
#endif
__attribute__((section(".PyRuntime"))) struct {
    char cookie[8];
    unsigned long version, rest[200];
} _PyRuntime = {COOKIE, 0x030d00f0};
#ifdef LIBRARY
__attribute__((constructor))
#endif
int main(void)
{
#ifdef AS_DATA
    void *place = (void *)0x10000000;
    int file = open("/proc/self/exe", O_RDONLY);
    if (mmap(place, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) != place) {
        return 1;
    }
#endif
    printf("%p\\n", (void *)&_PyRuntime);
    fflush(stdout);
    return (int)read(0, &_PyRuntime, 0) + (int)read(0, &_PyRuntime, 1);
}
"""


def compile_c(output: Path, *arguments: str) -> Path:
    command = ["gcc", "-std=gnu11", "-w", *arguments, "-o", str(output)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return output


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    folders = ["base", "os", "model", "reader", "cpython", "unwind"]
    sources = [str(file) for folder in folders for file in (SOURCES / folder).glob("*.c")]
    support = [str(TESTS / "support" / name) for name in ("outside_probe.c", "image_stacks.c")]
    return compile_c(
        tmp_path_factory.mktemp("probe") / "outside_probe",
        *["-O1", "-D_GNU_SOURCE", f"-I{SOURCES}", f"-I{TESTS}"],
        *[*sources, *support, "-lzstd", "-lpthread", "-lm"],
    )


@contextmanager
def running(command, **options):
    """A program that has printed its first line, which is given, too, and waits for its end."""
    options.setdefault("stdin", subprocess.PIPE)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


# Without the right to open /proc/PID/map_files, which would hide whether the other ways work.
FEWER_RIGHTS = (
    ["setpriv", "--bounding-set=-sys_admin,-checkpoint_restore"] if os.geteuid() == 0 else []
)


def look(probe, pid, prefix=(), **options):
    command = [*prefix, str(probe), str(pid)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def check_stacks(probe, process, line, prefix=()):
    facts, expected = json.loads(line)
    done = look(probe, process.pid, prefix)
    assert done.returncode == 0, done.stderr
    first, _, text = done.stdout.partition("\n")
    words = [int(word, 16) for word in first.removeprefix("runtime ").split()]
    assert words == [facts["runtime"], facts["version"], facts["code_type"]]
    record_image.compare(record_image.parse(text), expected)


def target(python=sys.executable):
    return [python, "-c", TARGET, str(TESTS / "support")]


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_br_136_br_144_stacks_twice_without_a_stop(probe):
    with running(target()) as (process, line):
        check_stacks(probe, process, line)
        check_stacks(probe, process, line)
        assert state_of(process.pid) == "S"


def interpreter_file():
    """The file that this interpreter is in: a shared library, or the program."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if line.count(" ") > 5}
    names = {path for path in paths if "/libpython3." in path and "/libpython3.so" not in path}
    return Path(names.pop()) if names else Path(os.path.realpath(sys.executable))


@pytest.mark.parametrize("fate", ["deleted", "replaced"])
def test_interpreter_whose_file_is_gone(probe, tmp_path, fate):
    original = interpreter_file()
    copy = Path(shutil.copy(original, tmp_path / original.name))
    environment = {**os.environ, "PYTHONHOME": sys.base_prefix}
    python = str(copy)
    if ".so" in original.name:
        environment["LD_PRELOAD"] = str(copy)
        python = os.path.realpath(sys.executable)
    with running(target(python), env=environment) as (process, line):
        assert str(copy) in Path(f"/proc/{process.pid}/maps").read_text()
        copy.unlink()
        if fate == "replaced":
            shutil.copy(probe, copy)
        assert f"{copy} (deleted)" in Path(f"/proc/{process.pid}/maps").read_text()
        check_stacks(probe, process, line, FEWER_RIGHTS)


def pretender(folder, *arguments, cookie="xdebugpy"):
    source = folder / "pretender.c"
    source.write_text(PRETENDER)
    return compile_c(folder / "pretender", str(source), f'-DCOOKIE="{cookie}"', *arguments)


@pytest.mark.parametrize(
    "options",
    [
        ["-no-pie", "-rdynamic", "-s"],  # as distributions build it: dynamic symbols only
        ["-pie", "-rdynamic", "-Wl,--hash-style=sysv"],
        ["-pie", "-rdynamic", "-DAS_DATA"],  # and has mapped its own file, in front of itself
        ["-pie"],  # exports nothing
        ["-no-pie"],
        ["-static"],
        ["-static-pie"],
        ["-pie", "-s"],  # no symbol at all: the section
        ["-static", "-s"],
    ],
    ids=" ".join,
)
def test_br_145_every_way_to_link_an_interpreter(probe, tmp_path, options):
    has_symbols = options[-1] != "-s" or "-rdynamic" in options
    # A version that differs from the published one tells where it was found.
    program = pretender(tmp_path, "-DVERSION=0x030d05f0", *options)
    with running([str(program)]) as (process, line):
        program.unlink()
        done = look(probe, process.pid, FEWER_RIGHTS)
    version = "0x30d05f0" if has_symbols else "0x30d00f0"
    assert done.stdout == f"runtime {line.strip()} {version} 0\n", done.stderr
    assert done.returncode == 1 and done.stderr.count("\n") == 1  # it has no threads


def can_make_mount_namespace():
    command = ["unshare", "--mount", "true"]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.skipif(not can_make_mount_namespace(), reason="no mount namespace can be made here")
def test_br_143_library_in_another_mount_namespace(probe, tmp_path):
    options = ["-shared", "-fPIC", "-fvisibility=hidden", "-DLIBRARY"]  # it exports nothing
    library = pretender(tmp_path, *options)
    inside = tmp_path / "inside"
    inside.mkdir()
    script = 'mount -t tmpfs tmpfs "$0" && cp "$1" "$0/lib" && LD_PRELOAD="$0/lib" exec true'
    command = ["unshare", "--mount", "sh", "-c", script, str(inside), str(library)]
    with running(command) as (process, line):
        assert not (inside / "lib").exists()
        done = look(probe, process.pid, FEWER_RIGHTS)
    assert done.stdout == f"runtime {line.strip()} 0x30d00f0 0\n", done.stderr


def test_br_145_no_such_process(probe):
    process = subprocess.Popen(["true"])
    while state_of(process.pid) != "Z":
        pass
    for pid in process.pid, -1, 0, 2**40:
        done = look(probe, pid)
        assert done.returncode == 1
        assert done.stderr == f"ENOENT: there is no process {pid}\n"
    process.wait()


def test_br_145_no_python(probe):
    with running(["sh", "-c", "echo ready; exec sleep 600"]) as (process, _):
        done = look(probe, process.pid)
    assert done.returncode == 1
    assert done.stderr == f"ENOENT: no Python interpreter was found in process {process.pid}\n"


def test_br_138_versions_that_are_not_known(probe, tmp_path):
    with running([str(pretender(tmp_path, cookie="-"))]) as (process, _):
        done = look(probe, process.pid)
    assert done.stderr == (
        f"EVERSION: the Python in process {process.pid} does not tell its version, "
        "so it is older than 3.11\n"
    )
    with running([str(pretender(tmp_path, "-DVERSION=0x031000f0"))]) as (process, _):
        done = look(probe, process.pid)
    assert done.stderr.startswith("EVERSION: Python 3.16.0 is not supported: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_br_140_process_of_another_user(probe):
    with running(target()) as (process, _), tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # pytest's folders are closed to others
        done = look(shutil.copy(probe, folder), process.pid, user=65534, group=65534)
    assert done.returncode == 1
    assert done.stderr == (
        f"EPERM: the memory of process {process.pid} may not be read: that takes root, or the "
        "capability CAP_SYS_PTRACE\n"
    )
