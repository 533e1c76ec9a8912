#!/usr/bin/env python3
"""What `pyrometer serve` costs: bench/server.py [PROFILE...] (pprof files of a real service run).

Without files it records some first: the demo service under load, each of its pages with a label
`endpoint`, in windows of --window seconds. They must have that label, and threads with numbers in
their names, since questions filter by both.

Replays the files with shifted times and hosts as 20 processes of one service: one hour, sent by 16
senders over HTTP, which the server sums; then copies that hour in the store itself, to a week, has
its days summed, and asks. Prints the rate, CPU and memory of taking profiles in, the size on disk
against the files, and what each question takes: the first time after a start with the file out of
the page cache, with the bytes read from disk, and the best of three more. CPU time stands beside
wall time, because a busy machine spoils only the latter; --cpu N puts the server on one core (the
senders should then have another).
"""

import argparse
import http.client
import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

PROCESSES = 20
MINUTES = 60
WINDOWS = 15
SENDERS = 16
HOUR = 3600
DAY = 24 * HOUR
QUESTIONS = [
    ("flame tree", "/api/flame", {"type": "cpu-time"}),
    (
        "same, thread, endpoint, version",
        "/api/flame",
        {
            "type": "wall-time",
            "version": "1",
            "where": ["thread name=~.*[13579].*", "endpoint=~/(stock|order|primes)"],
        },
    ),
    ("top table", "/api/top", {"type": "wall-time"}),
    ("time series by host", "/api/series", {"type": "cpu-time", "by": "host", "step": "1h"}),
    ("the page's document", "/api/document", {}),
]


def record(folder, window):
    """Windows of the demo service under load; pyrometer and its python come first on PATH."""
    here = Path(__file__).resolve().parent
    python = shutil.which("python") or sys.executable
    settings = {"PYROMETER_OUTPUT_PPROF": f"{folder}/shop", "PYROMETER_SERVICE": "shop"}
    settings |= {"PYROMETER_UPLOAD_INTERVAL": f"{window}s"}
    service = subprocess.Popen(
        ["pyrometer", "run", "--", python, str(here / "labelled_shop.py")],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        text=True,
    )
    port = service.stdout.readline().strip()
    load = [python, str(here.parent / "demo" / "load.py"), port, str(window * WINDOWS)]
    subprocess.run(load, check=True)
    service.send_signal(signal.SIGTERM)
    service.wait(60)
    files = sorted(Path(folder).glob("shop.*.pprof"), key=lambda file: file.stat().st_mtime)
    return files[:WINDOWS]  # the one after them is cut short


class Server:
    cpu = None

    def __init__(self, folder):
        command = ["taskset", "-c", str(self.cpu)] if self.cpu is not None else []
        command += [shutil.which("pyrometer") or sys.exit("no pyrometer on PATH")]
        command += ["serve"]
        command += ["--listen", "127.0.0.1:0", "--data", str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = urllib.parse.urlsplit(self.process.stdout.readline().split()[-1]).port

    def ask(self, method, path, body=None, **arguments):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request(method, f"{path}?{urllib.parse.urlencode(arguments, doseq=True)}", body)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    def cpu_seconds(self):
        """Of all its threads, in nanoseconds' precision: clock ticks are coarser than questions."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def bytes_read(self):
        """From disk: what the page cache has is not among them."""
        lines = Path(f"/proc/{self.process.pid}/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))

    def most_memory(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
        return 0.0

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)


def send_hour(server, files, start):
    jobs = itertools.product(range(MINUTES), range(PROCESSES))
    lock = threading.Lock()
    wrong = []

    def send():
        while True:
            with lock:
                job = next(jobs, None)
            if job is None:
                return
            minute, process = job
            begin = start + minute * 60
            labels = {"service": "shop", "pid": process, "host": f"h{process % 5}"}
            labels |= {"version": process % 2, "from": begin, "until": begin + 60}
            body = files[(minute + process) % len(files)]
            if server.ask("POST", "/api/upload", body, **labels) != 200:
                wrong.append(labels)

    threads = [threading.Thread(target=send) for _ in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        sys.exit(f"{len(wrong)} profiles were refused")
    sent = MINUTES * PROCESSES
    return sent, sum(
        len(files[(m + p) % len(files)]) for m in range(MINUTES) for p in range(PROCESSES)
    )


def copy_to_a_week(folder, start):
    """The hour's rows and sums again for each hour of eight days, a book for each day. Sums of
    days are the server's to make."""
    database = sqlite3.connect(folder / "pyrometer.db")
    database.execute("DELETE FROM profile WHERE level=2")
    database.execute("UPDATE profile SET rolled=0 WHERE level=1")
    (book,) = database.execute("SELECT min(id) FROM book").fetchone()
    for day in range(8):
        number = book
        if day > 0:
            cursor = database.execute(
                "INSERT INTO book(service, day, is_full) SELECT service, day-?, 1 FROM book"
                " WHERE id=?",
                (day, book),
            )
            number = cursor.lastrowid
            database.execute(
                "INSERT INTO chunk SELECT ?, number, data FROM chunk WHERE book=?", (number, book)
            )
        for hour in range(24):
            shift = ((hour - (start % DAY) // HOUR) * HOUR - day * DAY) * 10**9
            if shift:
                database.execute(
                    "INSERT INTO profile(series, book, level, rolled, start_ns, end_ns, samples,"
                    " bytes, block) SELECT series, ?, level, rolled, start_ns+?, end_ns+?, samples,"
                    " bytes, block FROM profile WHERE start_ns>=? AND start_ns<? AND book=?",
                    (number, shift, shift, start * 10**9, (start + HOUR) * 10**9, book),
                )
        database.commit()
    database.execute("UPDATE series SET first_ns=first_ns-?", (9 * DAY * 10**9,))
    database.execute("UPDATE series SET last_ns=last_ns+?", (DAY * 10**9,))
    database.commit()
    database.close()


def wait_for_sums(folder):
    while True:
        database = sqlite3.connect(f"file:{folder}/pyrometer.db?mode=ro", uri=True)
        query = "SELECT count(*) FROM profile WHERE rolled=0"
        (left,) = database.execute(query).fetchone()
        database.close()
        if left == 0:
            return
        time.sleep(2)


def forget(folder):
    """Drops the store's files from the page cache; the server is not running."""
    for file in folder.iterdir():
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def ask_all(folder, title, start, until):
    for name, path, arguments in QUESTIONS:
        forget(folder)
        server = Server(folder)
        times, cpu, read = [], [], []
        for _ in range(4):
            begin, used, had = time.perf_counter(), server.cpu_seconds(), server.bytes_read()
            asked = {**arguments, "service": "shop", "from": start, "until": until}
            code = server.ask("GET", path, **asked)
            times.append(1000 * (time.perf_counter() - begin))
            cpu.append(1000 * (server.cpu_seconds() - used))
            read.append((server.bytes_read() - had) / 1e6)
            if code != 200:
                sys.exit(f"{path} answered {code}")
        print(
            f"{title:8} {name:32} cold {times[0]:6.0f} ms, CPU {cpu[0]:5.0f}, {read[0]:5.1f} MB"
            f"   again {min(times[1:]):6.0f} ms, CPU {min(cpu[1:]):5.0f}"
            f"   memory {server.most_memory():4.0f} MB"
        )
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("profiles", nargs="*", metavar="PROFILE")
    parser.add_argument("--window", type=int, default=4, help="seconds of a recorded profile")
    parser.add_argument("--no-week", action="store_true", help="one hour only")
    parser.add_argument("--cpu", type=int, help="the core of the server")
    arguments = parser.parse_args()
    Server.cpu = arguments.cpu
    with tempfile.TemporaryDirectory(prefix="pyrometer-bench-") as folder:
        names = arguments.profiles or record(folder, arguments.window)
        files = [Path(name).read_bytes() for name in names]
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{len(files)} different profiles; load of this machine {load}")
    start = int(time.time()) // DAY * DAY - 2 * DAY + 3 * HOUR  # its day has ended and is summed
    folder = Path(tempfile.mkdtemp(prefix="pyrometer-bench-"))
    try:
        server = Server(folder)
        begin = time.perf_counter()
        count, size = send_hour(server, files, start)
        seconds = time.perf_counter() - begin
        cpu = server.cpu_seconds()
        each = 1000 * cpu / count
        print(
            f"taken in {count} profiles of {size / count / 1000:.0f} kB: {count / seconds:.0f} a"
            f" second; {each:.1f} ms of CPU each, so {1000 / each:.0f} a second and core;"
            f" {server.most_memory():.0f} MB"
        )
        wait_for_sums(folder)
        server.stop()
        kept = (folder / "pyrometer.db").stat().st_size
        print(f"on disk {kept / 1e6:.1f} MB, {100 * kept / size:.0f} % of the files")
        ask_all(folder, "an hour", start, start + HOUR)
        # Without its first minute no sum of the hour will do: each profile is read, as each is of
        # the hour that has just passed.
        ask_all(folder, "59 min", start + 60, start + HOUR)
        if not arguments.no_week:
            copy_to_a_week(folder, start)
            server = Server(folder)
            wait_for_sums(folder)
            server.stop()
            # It begins and ends within a day, as one asks at any time: six sums of days, and hours.
            ask_all(folder, "a week", start + 2 * HOUR - 7 * DAY, start + 2 * HOUR)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
