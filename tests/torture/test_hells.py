"""The profiler at 1,000 looks a second over what hurts an interpreter most; see program.py.

No crash, no hang, no system call of the program interrupted, no growth, the program's own exit
code, and no stack that never was.
"""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pprof
import pytest
from agent import environment
from conftest import HERE, seconds

sys.path.insert(0, str(HERE))
import program  # noqa: E402

ALONE, TOGETHER = seconds(1), seconds(5)
LONG = ALONE >= 60
OWN_MOST = 24 << 20  # bytes of the profiler on its heap, whatever the program does
OWN_GROWTH = 1 << 20
RESIDENT_GROWTH = 16 << 20
# CPython itself grows without end when these run, also unprofiled.
GROWS_ALONE = {"interpreters"}
# These make a new stack faster than one can be read, and do nothing else: on a machine with a free
# CPU for the sampler up to 13 looks of 100 find no two copies that agree (3.12; others 0 to 3).
ALL_NEW = {"generators", "recursion"}
CUT_CHILD = re.compile(
    r"(\(\d+ times more\) )?the collector \w+ is off: the process \d+ of this .*? in \d+ s\n"
)
LEAF = re.compile(r"(left|right)_leaf")


def torture(folder: Path, library: Path, wanted: float, names: list[str], **settings: str) -> dict:
    """Runs the program; its report, with what the profiler says of itself."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "program.py"), str(wanted), *names],
        cwd=folder,
        env=environment(
            folder / "out",
            TORTURE_LIBRARY=str(library),
            PYROMETER_SAMPLING_INTERVAL="1ms",
            PYROMETER_OVERHEAD_PCT="100",
            PYROMETER_UPLOAD_INTERVAL="1s",
            PYROMETER_EXIT_TIMEOUT="30s",  # the hells leave others hardly a turn on the CPUs
            **settings,
        ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = process.communicate(timeout=wanted + 90)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # faulthandler says where it hangs
        out, err = process.communicate()
        pytest.fail(f"the program hangs\n{out}\n{err}")
    assert process.returncode == program.GOOD, (process.returncode, out[:2000], err[-4000:])
    # A child that leaves by _exit is within the sampler every few times, at so many looks.
    assert CUT_CHILD.sub("", err) == ""
    return json.loads(out.splitlines()[-1])


def documents(folder: Path) -> list[dict]:
    return [json.loads(file.read_text()) for file in (folder / "out").glob("*.json")]


def check_documents(folder: Path, names: list[str]) -> None:
    rows = documents(folder)
    total = {key: sum(row["tick"].get(key, 0) for row in rows) for key in ("visits", "torn")}
    print(f"visits {total['visits']}, torn {total['torn']}, windows {len(rows)}")
    assert total["visits"] > 0
    share = 4 if ALL_NEW.intersection(names) else 33
    assert total["torn"] * share <= total["visits"]  # counted, never shown


def check_stacks(folder: Path) -> None:
    """Each leaf of an alternating chain has its own caller, in whatever company it ran."""
    seen = 0
    for file in (folder / "out").glob("*.pprof"):
        for sample in pprof.parse(file.read_bytes()).samples:
            names = [name for name, _, _ in sample.stack]
            for callee, caller in zip(names, names[1:]):
                side = LEAF.fullmatch(callee)
                if caller == "<name not known>":  # of hooks, in code that comes and goes too fast
                    continue
                if side:
                    assert caller == f"{side[1]}_turn", names
                    seen += 1
                if callee == "fall" and not caller.endswith("frames omitted>"):
                    assert caller in ("fall", "forks", "recursion"), names
    assert seen > 0


def check_memory(report: dict, names: list[str]) -> None:
    rows = report["memory"]
    own = [row["own"] for row in rows]
    assert max(own) <= OWN_MOST
    if not LONG:
        return
    half, end = len(rows) // 2, max(1, len(rows) // 10)
    assert max(own[-end:]) <= max(own[:half]) + OWN_GROWTH
    if not GROWS_ALONE.intersection(names or program.hells):
        resident = [row["resident"] for row in rows]
        assert max(resident[-end:]) <= max(resident[:half]) + RESIDENT_GROWTH


@pytest.mark.timeout(ALONE + 120)
@pytest.mark.parametrize("name", program.hells)
def test_alone(name, tmp_path, foreign):
    report = torture(tmp_path, foreign, ALONE, [name])
    check_memory(report, [name])
    check_documents(tmp_path, [name])


@pytest.mark.timeout(1.5 * TOGETHER + 120)  # the windows of a long one take a while to read
def test_together(tmp_path, foreign):
    report = torture(tmp_path, foreign, TOGETHER, [])
    check_memory(report, [])
    check_documents(tmp_path, [])
    check_stacks(tmp_path)
