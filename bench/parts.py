"""What the parts of a tick cost a thread that has slept, on this machine: parts.py [SECONDS].

A thread wakes a hundred times a second beside one that computes, and does one thing at each wake,
picked at random (wake.c). Printed: its CPU in microseconds, and what that is above an empty wake.
"""

import ctypes
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def compute(until: float) -> None:
    table = {}
    while time.perf_counter() < until:
        for i in range(200):
            table[i & 63] = str(i)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    with tempfile.TemporaryDirectory() as folder:
        target, source = Path(folder) / "wake.so", Path(__file__).resolve().parent / "wake.c"
        command = ["gcc", "-O2", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", target, source]
        subprocess.run([*command, "-pthread"], check=True)
        wake = ctypes.CDLL(str(target))
    wake.wake_part.restype = ctypes.c_char_p
    wake.wake_start(10_000_000, 1)
    compute(time.perf_counter() + seconds)
    print("     best   median, of it above an empty wake")
    empty = wake.wake_cost(0, 50)
    part = 0
    while (name := wake.wake_part(part)) is not None:
        best, median = wake.wake_cost(part, 10), wake.wake_cost(part, 50)
        print(f"{best / 1e3:9.1f}{median / 1e3:9.1f}{(median - empty) / 1e3:9.1f}  {name.decode()}")
        part += 1


main()
