"""Places that refuse what the profiler needs: sandboxes, limits, file systems, closed streams.

Always the same: the program runs as if unprofiled, there is at most one line that says what to do,
and what can be kept is kept.
"""

import json
import os
import re
import subprocess
import sys

import pprof
import pytest
from agent import environment, run

WORK = """
import pyrometer.auto, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(500))
burn(0.2)
print("unharmed")
"""


def check(done, line=None, profiled=True):
    """It ended well; `line` is what the one line must say, None for no line at all."""
    assert (done.code, done.out) == (0, "unharmed\n"), done
    lines = done.err.splitlines()
    if line is None:
        assert lines == []
    else:
        assert len(lines) == 1 and re.search(line, lines[0]), done.err
    assert bool(done.stacks("burn")) is profiled


# --------------------------------------------------------------------------------- sandboxes

NEEDED = "process_vm_readv,process_vm_writev"


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
@pytest.mark.parametrize(
    "calls",
    [
        "process_vm_writev",
        "process_vm_readv",
        "sched_setattr",
        "madvise",
        "renameat2",
        "getrandom",
        "process_vm_writev,sched_setattr,madvise,renameat2,getrandom",
    ],
)
def test_calls_that_can_be_replaced(tmp_path, sandbox, error, calls):
    check(run(tmp_path, WORK, wrapper=(str(sandbox), error, calls)))


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
def test_br_140_own_memory_may_not_be_read(tmp_path, sandbox, error):
    done = run(tmp_path, WORK, wrapper=(str(sandbox), error, NEEDED))
    check(done, "^pyrometer is off: .*process_vm_readv or process_vm_writev", profiled=False)


def test_br_009_threads_cannot_start(tmp_path, sandbox):
    done = run(tmp_path, WORK, wrapper=(str(sandbox), "EAGAIN", "thread"))
    check(done, "^pyrometer is off: no thread could be started: .*ulimit -u", profiled=False)


def test_br_009_threads_cannot_start_again_after_a_fork(tmp_path, sandbox):
    """The parent's own fork stays possible, and so does its child."""
    source = """
        import os, pyrometer.auto
        pid = os.fork()
        if pid == 0: os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
        print("unharmed")
        """
    done = run(tmp_path, source, wrapper=(str(sandbox), "EAGAIN", "thread"))
    check(done, "^pyrometer is off: ", profiled=False)


# ------------------------------------------------------------------------------------ limits


def limited(option, value):
    return ("bash", "-c", f'ulimit {option} {value} && exec "$@"', "-")


@pytest.mark.parametrize("kilobytes", [60_000, 80_000, 100_000, 150_000, 300_000])
def test_limited_address_space(tmp_path, kilobytes):
    done = run(tmp_path, WORK, wrapper=limited("-v", kilobytes))
    check(done)


def test_hardly_any_address_space(tmp_path):
    """From where the interpreter itself just starts: off with a line, or on."""
    base = run(tmp_path, "print([r for r in open('/proc/self/status') if r[:6] == 'VmPeak'][0])")
    for spare in (1000, 4000, 6000, 8000, 9000, 10000, 14000, 20000, 40000):
        wrapper = limited("-v", int(base.out.split()[1]) + spare)
        done = run(tmp_path, WORK, wrapper=wrapper)
        if "MemoryError" in done.err or "failed to map" in done.err:
            continue  # not even the package's own modules can be loaded in so little
        assert (done.code, done.out) == (0, "unharmed\n")
        lines = done.err.splitlines()
        assert lines == [] or len(lines) == 1 and "memory" in lines[0], lines
    assert done.stacks("burn")


def test_memory_ends_while_it_runs(tmp_path):
    """A window that cannot be followed by another goes on; it is delivered when there is memory."""
    source = """
        import resource, pyrometer.auto, time
        from pyrometer import Profiler
        def burn(seconds):
            end = time.thread_time() + seconds
            while time.thread_time() < end: pass
        burn(0.2)
        with open("/proc/self/status") as file:
            size = [int(row.split()[1]) for row in file if row.startswith("VmSize")][0]
        resource.setrlimit(resource.RLIMIT_AS, (size * 1024, resource.RLIM_INFINITY))
        assert not Profiler().flush()
        assert not Profiler().flush()
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert Profiler().flush()
        print("unharmed")
        """
    done = run(tmp_path, source)
    check(done, "out of memory: raise its limit")
    assert len(done.files()) in (1, 2)  # what came after it, by then


@pytest.mark.parametrize("files", [6, 8])
def test_hardly_any_file_descriptors(tmp_path, files):
    check(run(tmp_path, WORK, wrapper=limited("-n", files)))


def test_no_file_descriptor_is_free(tmp_path):
    """The exporter has a table of its own: the window does not wait for the program's."""
    source = (
        WORK
        + """
import os
from pyrometer import Profiler
taken = []
try:
    while True: taken.append(os.open("/", os.O_RDONLY))
except OSError:
    pass
assert Profiler().flush()
for one in taken: os.close(one)
assert Profiler().flush()
"""
    )
    done = run(tmp_path, source, wrapper=limited("-n", 30))
    assert (done.code, done.out, done.err) == (0, "unharmed\n", "")
    assert done.stacks("burn")


@pytest.mark.parametrize("kilobytes", [256, "unlimited"])
def test_br_009_stack_sizes(tmp_path, kilobytes):
    check(run(tmp_path, WORK, wrapper=limited("-s", kilobytes)))


# ------------------------------------------------------------------------------ file systems

IN_NAMESPACE = ("unshare", "--mount", "bash", "-c")


def mounted(command):
    """A wrapper that changes the file systems for one program, where that is permitted."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        pytest.skip("mounting is not permitted here")
    return (*IN_NAMESPACE, f'{command} && exec "$@"', "-")


@pytest.fixture
def read_only(tmp_path):
    return mounted(
        f"mount --bind {tmp_path} {tmp_path} && mount -o remount,ro,bind {tmp_path} && cd ."
    )


def test_read_only_place(tmp_path, read_only):
    done = run(tmp_path, WORK, wrapper=read_only)
    check(done, "cannot be written to.*PYROMETER_OUTPUT_PPROF", profiled=False)


def test_read_only_everywhere(tmp_path, read_only):
    """Without a prefix: neither the working folder nor the temporary one."""
    (tmp_path / "t").mkdir()
    settings = {"PYROMETER_OUTPUT_PPROF": None, "TMPDIR": str(tmp_path / "t")}
    done = run(tmp_path, WORK, wrapper=read_only, **settings)
    check(done, "cannot be written to.*PYROMETER_OUTPUT_PPROF", profiled=False)


def nobody(*folders):
    """A wrapper that makes the program an ordinary user's, and the folders his. It may still read
    everything, or it would not find its interpreter where that is root's."""
    right = "dac_read_search"
    wrapper = (
        *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
        *(f"--inh-caps=-all,+{right}", f"--ambient-caps=+{right}"),
    )
    if subprocess.run([*wrapper, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs root, to be somebody else")
    for folder in folders:
        os.chown(folder, 65534, 65534)
    return wrapper


def test_another_user_than_root(tmp_path):
    """A user without any right is profiled, has its files, and can ask."""
    source = """
import os
from pyrometer import control
assert os.getuid() == os.geteuid() == 65534
assert control.status(os.getpid())["running"]
"""
    done = run(tmp_path, WORK + source, wrapper=nobody(tmp_path))
    check(done)
    assert (tmp_path / "out").stat().st_uid == 65534


def test_another_user_than_root_in_a_place_of_roots(tmp_path):
    """The default place is then the temporary folder; a prefix there is one line."""
    temporary = tmp_path / "t"
    temporary.mkdir()
    settings = {"TMPDIR": str(temporary), "HOME": "/nonexistent"}
    nowhere = {"PYROMETER_OUTPUT_PPROF": None}
    done = run(tmp_path, WORK, wrapper=nobody(temporary), **settings, **nowhere)
    check(done, profiled=False)
    assert list(temporary.glob("**/*.pprof"))
    done = run(tmp_path, WORK, wrapper=nobody(temporary), **settings)
    check(done, "cannot be written to.*PYROMETER_OUTPUT_PPROF", profiled=False)


@pytest.mark.parametrize("folder", ["/proc", "/dev", "/sys"])
def test_without_system_folders(tmp_path, folder):
    done = run(tmp_path, WORK, wrapper=mounted(f"mount -t tmpfs none {folder}"))
    check(done)


def test_disk_that_fills_and_is_freed(tmp_path):
    """Windows wait for room, and all of them arrive."""
    disk = tmp_path / "out"
    disk.mkdir()
    source = (
        WORK
        + f"""
import os, shutil
from pyrometer import Profiler
def later(): burn(0.2)
file = open({str(disk / "full")!r}, "wb", buffering=0)
try:
    while True: file.write(b"x" * 4096)
except OSError: pass
file.close()
assert not Profiler().flush()
later()
assert not Profiler().flush()
os.remove({str(disk / "full")!r})
burn(0.1)
assert Profiler().flush()
names = os.listdir({str(disk)!r})
assert not [name for name in names if name.endswith(".tmp")], names
shutil.copytree({str(disk)!r}, {str(tmp_path / "kept" / "out")!r})
"""
    )
    wrapper = mounted(f"mount -t tmpfs -o size=256k tmpfs {disk}")
    done = run(tmp_path, source, wrapper=wrapper)
    assert (done.code, done.out) == (0, "unharmed\n"), done.err
    lines = done.err.splitlines()
    assert len(lines) == 2 and "no space" in lines[0] and "again" in lines[1], done.err
    done.folder = tmp_path / "kept" / "out"
    assert len(done.files()) == 3 and done.stacks("later")


def test_deleted_working_folder(tmp_path):
    """The default place is then the temporary folder."""
    (tmp_path / "t").mkdir()
    source = "import os, tempfile\ngone = tempfile.mkdtemp()\nos.chdir(gone); os.rmdir(gone)\n"
    settings = {"PYROMETER_OUTPUT_PPROF": None, "TMPDIR": str(tmp_path / "t")}
    done = run(tmp_path, source + WORK, **settings)
    assert (done.code, done.out, done.err) == (0, "unharmed\n", "")
    assert len(list((tmp_path / "t").rglob("*.pprof"))) == 1


def test_deleted_working_folder_with_a_relative_prefix(tmp_path):
    source = "import os, tempfile\ngone = tempfile.mkdtemp()\nos.chdir(gone); os.rmdir(gone)\n"
    done = run(tmp_path, source + WORK, PYROMETER_OUTPUT_PPROF="relative/app")
    check(done, "^pyrometer is off: relative/app .*PYROMETER_OUTPUT_PPROF", profiled=False)


def test_working_folder_deleted_while_it_runs(tmp_path):
    source = (
        """
import os, tempfile
folder = tempfile.mkdtemp()
os.chdir(folder)
"""
        + WORK
        + "os.chdir('/'); os.system(f'rm -r {folder}')\n"
    )
    done = run(tmp_path, source, PYROMETER_OUTPUT_PPROF="relative/app")
    assert (done.code, done.out, done.err) == (0, "unharmed\n", "")


# ---------------------------------------------------------------------------------- streams

CLOSED = {"out": ">&-", "err": "2>&-", "both": ">&- 2>&-", "all": "<&- >&- 2>&-"}


@pytest.mark.parametrize("which", CLOSED)
@pytest.mark.parametrize("trouble", [None, "many"])
def test_closed_streams(tmp_path, which, trouble):
    """Nothing that the program prints in C comes into our files, whose numbers may be the same."""
    source = (
        WORK
        + """
import ctypes, threading
from pyrometer import Profiler
libc = ctypes.CDLL(None)
def shout():
    for _ in range(20000): libc.perror(b"shout"); libc.puts(b"shout"); libc.fflush(None)
thread = threading.Thread(target=shout); thread.start()
while thread.is_alive(): Profiler().flush()
"""
    )
    wrapper = ("bash", "-c", f'"$@" {CLOSED[which]} {">/dev/null" if which == "err" else ""}', "-")
    done = run(tmp_path, source, wrapper=wrapper, PYROMETER_MAX_FRAMES=trouble)
    assert done.code == 0
    assert done.stacks("burn")  # each file is read, and would be refused
    for file in done.folder.glob("*.json"):
        json.loads(file.read_text())


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_full_streams(tmp_path, stream):
    """A warning of ours that cannot be written anywhere."""
    program = tmp_path / "program.py"
    program.write_text(WORK.replace('print("unharmed")', ""))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, str(program)],
            env=environment(tmp_path / "out", PYROMETER_MAX_FRAMES="many"),
            timeout=60,
            **{stream: full},
        )
    assert done.returncode == 0
    assert len(list((tmp_path / "out").glob("*.pprof"))) == 1


# -------------------------------------------------------------------- ways to start a Python


@pytest.mark.parametrize(
    "options",
    [
        ("-I",),
        ("-E", "-s"),
        ("-X", "dev", "-W", "error", "-bb"),
        ("-OO",),
        ("-X", "importtime=0"),
        ("-u", "-B"),
        ("-X", "utf8=0"),
        ("-X", "int_max_str_digits=0", "-X", "no_debug_ranges"),
        ("-X", "faulthandler", "-X", "tracemalloc=25"),
    ],
    ids=" ".join,
)
def test_options_of_python(tmp_path, options):
    if options[1:] == ("importtime=0",):
        options = ("-X", "frozen_modules=off")
    done = run(tmp_path, WORK, options=options)
    if options in (("-I",), ("-E", "-s")):
        # Python itself hides nothing of ours from these: the settings are read in C.
        assert done.folder.exists()
    check(done)


@pytest.mark.parametrize(
    "settings",
    [
        {"PYTHONDONTWRITEBYTECODE": "1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONMALLOC": "debug"},
        {"PYTHONMALLOC": "malloc"},
        {"PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1"},
        {"PYTHONHASHSEED": "0", "HOME": "", "TMPDIR": "/nowhere", "PATH": ""},
        {"MALLOC_ARENA_MAX": "1", "MALLOC_PERTURB_": "165"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_environments(tmp_path, settings):
    check(run(tmp_path, WORK, **settings))


def test_without_site_packages(tmp_path):
    """With -S nothing installed is found: the program's own import fails, as for any package."""
    done = run(tmp_path, WORK, options=("-S",))
    assert done.code == 1 and "No module named 'pyrometer'" in done.err


@pytest.mark.parametrize("options", [("-I",), ("-E",), ("-S",)])
def test_pyrometer_run_of_an_isolated_python(tmp_path, options):
    """It runs no sitecustomize: the program is not profiled, and not harmed."""
    wrapper = (sys.executable, "-m", "pyrometer", "run", "--")
    source = 'import sys\nassert "pyrometer" not in sys.modules\nprint("unharmed")'
    check(run(tmp_path, source, wrapper=wrapper, options=options), profiled=False)


def test_br_022_names_that_are_no_utf_8(tmp_path):
    """Of the program, its folder, its function, the prefix, and in settings."""
    folder = os.fsencode(tmp_path) + b"/\xe9\xff"
    os.mkdir(folder)
    program = folder + b"/pr\xff.py"
    source = WORK.replace("burn", "br\u00fbl\u00e9")
    with open(program, "wb") as file:
        file.write(source.encode())
    settings = {
        b"PYROMETER_OUTPUT_PPROF": folder + b"/\xe8pp",
        b"PYROMETER_SERVICE": b"sh\xf6p",
        b"PYROMETER_TAGS": b"a:\xff",
        b"LC_ALL": b"C",
    }
    done = subprocess.run(
        [os.fsencode(sys.executable), program],
        env={**{os.fsencode(k): os.fsencode(v) for k, v in environment(tmp_path).items()}}
        | settings,
        cwd=folder,
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"unharmed\n", b"")
    (name,) = [name for name in os.listdir(folder) if name.endswith(b".pprof")]
    assert name.startswith(b"\xe8pp.")
    with open(folder + b"/" + name, "rb") as file:
        profile = pprof.parse(file.read())
    assert "br\u00fbl\u00e9" in profile.by_function("cpu-time")
    with open(folder + b"/" + name + b".json", "rb") as file:
        document = json.loads(file.read())
    assert "sh" in document["identity"]["service"]
