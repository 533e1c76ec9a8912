"""What the tests of the program share: the program, a small profile, random profiles.

The program is $PYROMETER_PROGRAM, by default `pyrometer` on PATH. Profiles are written and read by
tests/support/pprof.py, which shares nothing with the program.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import pprof  # noqa: E402

GOLDEN = Path(__file__).parent / "golden"
SECOND = 1_000_000_000
START = 1_764_453_600 * SECOND  # 2025-11-29 22:00:00 UTC
TYPES = [
    ("cpu-time", "nanoseconds"),
    ("cpu-samples", "count"),
    ("wall-time", "nanoseconds"),
    ("wall-samples", "count"),
]


def call(*arguments, environment=None, **settings):
    """Runs the program; standard output and error are texts unless `text` says otherwise."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYROMETER_")}
    clean.update(environment or {})
    settings.setdefault("text", True)
    if settings["text"]:
        settings.setdefault("encoding", "utf-8")
    return subprocess.run(
        [os.environ.get("PYROMETER_PROGRAM", "pyrometer"), *map(str, arguments)],
        capture_output=settings.pop("capture_output", True),
        env=clean,
        timeout=60,
        check=False,
        **settings,
    )


def good(*arguments, **settings):
    """Runs the program, which must succeed; its standard output."""
    done = call(*arguments, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def wrong(*arguments, **settings):
    """Runs the program, which must refuse with one line on standard error; that line."""
    done = call(*arguments, **settings)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("pyrometer: ")
    return lines[0]


def golden(name, text):
    """Compares with tests/cli/golden/<name>; PYROMETER_GOLDEN=write makes the file anew."""
    file = GOLDEN / name
    if os.environ.get("PYROMETER_GOLDEN") == "write":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def new_profile(**fields):
    return pprof.Profile(
        types=list(TYPES),
        time_ns=START,
        duration_ns=10 * SECOND,
        period_type=TYPES[0],
        period=10_000_000,
        default_type="cpu-time",
        **fields,
    )


def add(profile, stack, cpu=0, wall=0, thread="MainThread", native_id=100, state=None, end=None):
    """Adds a sample of `cpu` and `wall` seconds, looked at every 10 ms."""
    labels = {"thread name": thread, "thread native id": native_id}
    if state is not None:
        labels["state"] = state
    if end is not None:
        labels["end_timestamp_ns"] = START + int(end * SECOND)
    values = {
        "cpu-time": int(cpu * SECOND),
        "cpu-samples": int(cpu * 100),
        "wall-time": int(wall * SECOND),
        "wall-samples": int(wall * 100),
    }
    profile.samples.append(pprof.Sample(stack, values, labels))


RUN = ("Thread.run", "/usr/lib/python3.11/threading.py", 975)
HANDLE = ("handle", "/app/main.py", 20)


def shop_profile():
    """Ten seconds of two threads, with numbers that can be checked by hand."""
    profile = new_profile(comments=["window 1 of pyrometer"], main_binary="/usr/bin/python3")
    fib = [("fib", "/app/calc.py", 4), ("fib", "/app/calc.py", 5), HANDLE, RUN]
    pack = [
        ("zlib.compress", "<native>", 0),
        ("Cart.größe", "/app/cart;x.py", 8),
        ("handle", "/app/main.py", 21),
        RUN,
    ]
    lock = [("acquire", "<native>", 0), ("handle", "/app/main.py", 22), RUN]
    park = [("Queue.get", "/usr/lib/python3.11/queue.py", 171), RUN]
    serve = [("serve", "/app/main.py", 10), ("<module>", "/app/main.py", 3)]
    worker = {"thread": "worker-1", "native_id": 101}
    add(profile, fib, 1, 1, state="on-cpu", end=1, **worker)
    add(profile, pack, 2, 2, state="on-cpu", end=3, **worker)
    add(profile, fib, 3, 3, state="on-cpu", end=6, **worker)
    add(profile, lock, 0, 1, state="gil-wait", end=7, **worker)
    add(profile, park, 0, 3, state="parked", end=10, **worker)
    add(profile, serve, 0, 10, state="io", end=10)
    return profile


def random_profile(seed, samples=300):
    """Any stacks, recursion included, in any threads and states; some without a stack."""
    source = random.Random(seed)
    names = [f"f{index}" for index in range(12)] + ["größe", "名前", "a;b", 'q"uote', "<lambda>"]
    files = ["/app/a.py", "/app/b.py", "<native>", "", "/lib/c.py"]
    profile = new_profile()
    for _ in range(samples):
        depth = source.choice([0, 1, 1, 2, 3, 5, 8, 40])
        stack = [
            (source.choice(names), source.choice(files), source.randrange(30)) for _ in range(depth)
        ]
        thread = source.randrange(5)
        add(
            profile,
            stack,
            cpu=source.randrange(500) / 100,
            wall=source.randrange(500) / 100,
            thread=f"thread-{thread}",
            native_id=1000 + thread,
            state=source.choice(["on-cpu", "io", "parked", "sleep", None]),
        )
    return profile


def save(profile, path, document=None):
    path.write_bytes(pprof.write(profile))
    if document is not None:
        Path(f"{path}.json").write_text(document, encoding="utf-8")
    return path


DOCUMENT = """{
    "schema": 1,
    "identity": {"service": "shop", "pid": 4711, "host": "web-1", "python": "3.11.2"},
    "window": {"sequence": 1},
    "tick": {"interval_ns": 10000000, "tries": 12},
    "losses": {"torn": 3},
    "cost": {"cpu_ns": 12000000},
    "settings": {}
}"""


@pytest.fixture
def shop(tmp_path):
    """The path of the small profile, its document beside it."""
    return save(shop_profile(), tmp_path / "shop.1.1.pprof", DOCUMENT)
