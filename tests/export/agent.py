"""Runs a program under the profiler in a fresh interpreter, with receivers on loopback."""

import os
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

OURS = ("PYROMETER_", "DD_", "OTEL_", "KUBERNETES_", "POD_")
# Every program gets a spool of its own unless a test says otherwise.
PREAMBLE = """
import os, sys, time
from pyrometer import Profiler
profiler = Profiler()
profiler.start()

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))

def window(timeout=20):
    "Makes one window with samples in it, and delivers it."
    burn(0.05)
    return profiler.flush(timeout)
"""


@dataclass
class Outcome:
    code: int
    out: str
    err: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()


def environment(folder: Path, **settings: str | None) -> dict[str, str]:
    clean = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
    clean.pop("SSL_CERT_FILE", None)
    clean["PYROMETER_SPOOL_DIR"] = str(folder / "spool")
    clean["PYROMETER_UPLOAD_INTERVAL"] = "1h"  # windows end when the program says so
    clean["PYROMETER_EXIT_TIMEOUT"] = "20s"  # machines are busy; tests of the end have their own
    for name, text in settings.items():
        if text is None:
            clean.pop(name, None)
        else:
            clean[name] = str(text)
    return clean


def start(
    folder: Path,
    source: str,
    *,
    wrapper: tuple[str, ...] = (),
    preamble: str = PREAMBLE,
    **settings: str | None,
) -> subprocess.Popen:
    program = folder / "program.py"
    program.write_text(preamble + textwrap.dedent(source), encoding="utf-8")
    return subprocess.Popen(
        [*wrapper, sys.executable, str(program)],
        cwd=folder,
        env=environment(folder, **settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen, timeout: float = 60) -> Outcome:
    begin = time.monotonic()
    out, err = process.communicate(timeout=timeout)
    return Outcome(process.returncode, out, err, time.monotonic() - begin)


def run(folder: Path, source: str, timeout: float = 60, **settings: object) -> Outcome:
    return finish(start(folder, source, **settings), timeout)


def spooled(folder: Path) -> list[Path]:
    """Requests that wait on disk, oldest first."""
    return sorted((folder / "spool").glob("*.request"))
