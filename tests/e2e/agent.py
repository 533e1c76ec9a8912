"""Runs a program with the profiler in a fresh interpreter, and reads what it delivered.

The interpreter is the one that runs the tests, with the package installed. Profiles are read by
tests/support/pprof.py, which shares nothing with what wrote them.
"""

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import pprof  # noqa: E402

OURS = ("PYROMETER_", "DD_", "OTEL_")


@dataclass
class Outcome:
    code: int
    out: str
    err: str
    folder: Path

    def files(self, pid: int | str = "*") -> list[Path]:
        return sorted(self.folder.glob(f"app.{pid}.*.pprof"))

    def profiles(self, pid: int | str = "*") -> list[pprof.Profile]:
        return [pprof.parse(file.read_bytes()) for file in self.files(pid)]

    def samples(self, pid: int | str = "*") -> list[pprof.Sample]:
        return [sample for profile in self.profiles(pid) for sample in profile.samples]

    def stacks(self, function: str) -> list[list[str]]:
        """The stacks that have the function, as names, leaf first."""
        stacks = [[name for name, _, _ in sample.stack] for sample in self.samples()]
        return [stack for stack in stacks if function in stack]


def with_value(done: Outcome, name: str) -> list[pprof.Sample]:
    """The samples that have something of a type."""
    return [sample for sample in done.samples() if sample.values[name]]


def names(sample: pprof.Sample) -> list[str]:
    """The functions of its stack, leaf first."""
    return [name for name, _, _ in sample.stack]


def python_names(sample: pprof.Sample) -> list[str]:
    """The same, without the C function at the leaf."""
    return [name for name, file, _ in sample.stack if file != "<native>"]


def sums(done: "Outcome", name: str) -> dict[str, int]:
    """The values of a sample type by the Python function at the leaf."""
    by_function: dict[str, int] = {}
    for sample in with_value(done, name):
        leaf = python_names(sample)[0]
        by_function[leaf] = by_function.get(leaf, 0) + sample.values[name]
    return by_function


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """The environment of the tests without any settings but these; files go to `folder`/app.*"""
    clean = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
    clean["PYROMETER_OUTPUT_PPROF"] = str(folder / "app")
    clean.update(settings)
    return {name: text for name, text in clean.items() if text is not None}


def write(folder: Path, source: str) -> Path:
    program = folder / "program.py"
    program.write_text(textwrap.dedent(source), encoding="utf-8")
    return program


def run(
    folder: Path,
    source: str,
    *arguments: str,
    wrapper: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
    timeout: float = 60,
    **settings: str | None,
) -> Outcome:
    """Runs the program to its end. `settings` are environment variables; None removes one."""
    program = write(folder, source)
    done = subprocess.run(
        [*wrapper, sys.executable, *options, str(program), *arguments],
        cwd=folder,
        env=environment(folder / "out", **settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
    )
    return Outcome(done.returncode, done.stdout, done.stderr, folder / "out")


STARTED: list[subprocess.Popen] = []  # by the test that runs now; conftest.py ends what is left


def start(folder: Path, source: str, *arguments: str, **settings: str | None) -> subprocess.Popen:
    """Starts the program; it says on its first line that it is ready."""
    program = write(folder, source)
    process = subprocess.Popen(
        [sys.executable, str(program), *arguments],
        cwd=folder,
        env=environment(folder / "out", **settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    STARTED.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def finish(process: subprocess.Popen, folder: Path, timeout: float = 30) -> Outcome:
    out, err = process.communicate(timeout=timeout)
    return Outcome(process.returncode, out, err, folder / "out")
