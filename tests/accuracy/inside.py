"""What the programs under test import: work of known cost, and clocks around the profiler.

The outside clocks are the kernel's: CPU clocks of threads and of the process, the monotonic clock,
and the time a thread waited for a CPU. None of them is read through the profiler.
"""

import json
import os
import threading
import time

from pyrometer import Profiler


def burn(seconds):
    """Uses so much CPU time in Python code, by the calling thread's own clock."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(300):
            pass


class Meter:
    """What one thread's activities use, by its own clocks: wall time, CPU, and waits for a CPU."""

    def __init__(self):
        self.native_id = threading.get_native_id()
        self.used = {}  # activity -> [wall, CPU, waits] in seconds
        self.file = os.open(f"/proc/self/task/{self.native_id}/schedstat", os.O_RDONLY)

    def clocks(self):
        waits = int(os.pread(self.file, 80, 0).split()[1]) / 1e9
        return time.monotonic(), time.thread_time(), waits

    def run(self, function, *arguments):
        """Calls the function, and notes what it used under its name."""
        before = self.clocks()
        result = function(*arguments)
        sums = self.used.setdefault(function.__name__, [0, 0, 0])
        for index, after in enumerate(self.clocks()):
            sums[index] += after - before[index]
        return result


def measure(work):
    """Profiles work(), and prints as JSON what it returns with the clocks around it.

    Starting and stopping take some time of which the profile may hold any part, so each clock is
    read on both sides: what the profile holds lies between `inner` and `outer`.
    """
    profiler = Profiler()
    cpu, wall = time.process_time(), time.monotonic()
    profiler.start()
    inner_cpu, inner_wall = time.process_time(), time.monotonic()
    facts = work() or {}
    ends = time.process_time(), time.monotonic()
    profiler.stop()
    for name, fact in facts.items():
        facts[name] = fact.__dict__ if isinstance(fact, Meter) else fact
    facts["cpu"] = ends[0] - inner_cpu, time.process_time() - cpu
    facts["wall"] = ends[1] - inner_wall, time.monotonic() - wall
    print(json.dumps(facts))


class Workers:
    """Threads whose CPU clocks are read at their end, and which live until they are let go."""

    def __init__(self):
        self.clocks = {}  # native id -> CPU seconds
        self.threads = []
        self.ending = threading.Event()

    def start(self, work, *arguments, name=None):
        thread = threading.Thread(target=self._run, args=(work, arguments), name=name, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _run(self, work, arguments):
        work(*arguments)
        self.clocks[threading.get_native_id()] = time.thread_time()
        self.ending.wait()

    def wait(self):
        """Waits until all have done their work, and keeps them alive."""
        while len(self.clocks) < len(self.threads):
            time.sleep(0.01)
