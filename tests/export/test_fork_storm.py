"""Forks while profiles are sent: nothing hangs, nothing is lost, sent twice or left behind.

PYROMETER_STORM_FORKS sets how many (2000: the full storm, a minute on a busy machine).
"""

import os
import time
from collections import Counter, defaultdict

from agent import run

FORKS = int(os.environ.get("PYROMETER_STORM_FORKS", "400"))

STORM = """
import resource, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
FORKS = {forks}
THREADS = 8
def descriptors():
    return sorted(name for name in os.listdir("/proc/self/fd") if int(name) > 2)
def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
before = len(descriptors())
wrong = []
def child(number):
    # What it has is what the program has, at most: the profiler keeps a socket of its own there.
    if number % 10 == 0 and len(descriptors()) > before:
        os._exit(99)
    if number % 100 == 0:
        burn(0.1)
        time.sleep(0.2)
        profiler.stop()
    os._exit(number % 7)
def work(thread):
    for number in range(thread, FORKS, THREADS):
        burn(0.001)
        pid = os.fork()
        if pid == 0:
            child(number)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code != number % 7:
            wrong.append((number, code))
def storm():
    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
burn(0.2)
start_cpu = time.process_time()
storm()
settled = memory()
if FORKS >= 2000:
    storm()  # what it needs at most, it needed in the first
    assert memory() - settled < 8 << 20, (settled, memory())
print(len(descriptors()) - before, wrong, os.getpid(), flush=True)
profiler.stop()
print(time.process_time())
"""


def test_storm_while_sending(tmp_path, stub):
    begin = time.monotonic()
    done = run(
        tmp_path,
        STORM.format(forks=FORKS),
        timeout=300,
        PYROMETER_URL=stub.url,
        PYROMETER_UPLOAD_INTERVAL="1s",
        PYROMETER_SERVICE="storm",
    )
    assert (done.code, done.err) == (0, ""), done.err
    line, cpu = done.out.splitlines()
    left, wrong, pid = line[0], line[2:].rsplit(" ", 1)[0], line.rsplit(" ", 1)[1]
    assert (left, wrong) == ("0", "[]")

    windows = Counter()
    used = defaultdict(int)
    parents = set()
    for upload in stub.uploads:
        tags = dict(upload.tags())
        windows[(tags["runtime-id"], upload.event()["start"])] += 1
        used[tags["process_id"]] += upload.profile().total("cpu-time")
        if tags["process_id"] != pid:
            parents.add(tags["process_type"])
    assert set(windows.values()) == {1}, windows
    # Everything that the parent used, once.
    assert 0.97 * float(cpu) < used.pop(pid) / 1e9 < 1.03 * float(cpu)
    rounds = 2 if FORKS >= 2000 else 1
    assert parents == {"worker"}
    busy = [total for total in used.values() if total > 0.09e9]
    assert len(busy) == rounds * -(-FORKS // 100), (used, time.monotonic() - begin)


def test_child_of_a_fork_during_an_upload_has_nothing_of_it(tmp_path, stub):
    """Neither connection nor file."""
    arrived = []

    def answer_late(handler, request):
        arrived.append(request)
        time.sleep(0.5)
        stub.uploads.append(request)
        handler.answer(200, {})

    stub.behaviour = answer_late
    done = run(
        tmp_path,
        """
        import threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        def descriptors():
            return len(os.listdir("/proc/self/fd"))
        before = descriptors()
        thread = threading.Thread(target=window)
        thread.start()
        time.sleep(0.25)  # the upload is under way
        pid = os.fork()
        if pid == 0:
            os._exit(max(0, descriptors() - before))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert thread.is_alive()
        thread.join()
        profiler.stop(flush=False)
        """,
        PYROMETER_URL=stub.url,
    )
    assert (done.code, done.err) == (0, "")
    assert len(stub.uploads) == 1


def test_program_that_closes_every_descriptor_disturbs_no_upload(tmp_path, stub):
    """As daemons do: and what they open next is theirs alone."""

    def answer_late(handler, request):
        time.sleep(0.5)
        stub.uploads.append(request)
        handler.answer(200, {})

    stub.behaviour = answer_late
    done = run(
        tmp_path,
        """
        import threading
        done = []
        thread = threading.Thread(target=lambda: done.append(window()))
        thread.start()
        time.sleep(0.25)
        os.closerange(3, 256)
        files = [os.open("file", os.O_RDWR | os.O_CREAT) for _ in range(40)]
        thread.join()
        assert done == [True]
        assert os.stat("file").st_size == 0
        profiler.stop(flush=False)
        """,
        PYROMETER_URL=stub.url,
    )
    assert (done.code, done.err) == (0, "")
    assert len(stub.uploads) == 1
