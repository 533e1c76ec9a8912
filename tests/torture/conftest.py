"""What the torture tests share: how long they last, the runner of programs, helpers built from C.

By default each lasts seconds, so that they can run with all others; PYROMETER_TORTURE_SECONDS=600
makes every hell last that long.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
# agent.py, the runner of the end-to-end tests; pprof.py, the reader that shares nothing with ours.
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "support")]

# A shell starts what runs in its background with interrupts ignored, which programs inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


def seconds(default: float) -> float:
    return float(os.environ.get("PYROMETER_TORTURE_SECONDS", default))


def build(source: Path, target: Path, *options: str) -> Path:
    subprocess.run(
        ["gcc", "-Wall", "-Wextra", "-Werror", *options, "-o", target, source, "-pthread"],
        check=True,
    )
    return target


@pytest.fixture(scope="session")
def foreign(tmp_path_factory) -> Path:
    """The library that program.py loads."""
    folder = tmp_path_factory.mktemp("foreign")
    return build(HERE / "foreign.c", folder / "foreign.so", "-shared", "-fPIC")


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory) -> Path:
    """The program that runs another one with some system calls refused."""
    return build(HERE / "sandbox.c", tmp_path_factory.mktemp("sandbox") / "sandbox")
