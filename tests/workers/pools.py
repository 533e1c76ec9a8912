"""Programs that make their own workers: `python pools.py KIND`."""

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import application

PATHS = ["/busy", "/other"] * 12


def work(path):
    application.handle(path)
    time.sleep(0.01)  # so that each worker has its share


def work_all(paths=PATHS):
    for path in paths:
        application.handle(path)


def run_multiprocessing(method):
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=work_all, args=(PATHS[:12],)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


def run_pool(method):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        pool.map(work, PATHS, chunksize=1)
        pool.close()
        pool.join()


def run_executor():
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        list(pool.map(work, PATHS))


def run_forks_in_threads():
    def fork():
        pid = os.fork()
        if pid == 0:
            work_all(PATHS[:12])
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0

    threads = [threading.Thread(target=fork) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_subprocesses():
    for _ in range(2):
        subprocess.run([sys.executable, __file__, "here"], check=True)


def run_daemon():
    """Twice forked, with nothing of its parent's: the classic way."""
    reading, writing = os.pipe()
    if os.fork() > 0:
        os.close(writing)
        os.wait()
        assert os.read(reading, 1) == b""  # the daemon has ended
        return
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    os.closerange(3, writing)
    os.closerange(writing + 1, 256)
    null = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.chdir("/")
    work_all()
    sys.exit(0)


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kind, _, method = sys.argv[1].partition("-")
    {
        "multiprocessing": lambda: run_multiprocessing(method),
        "pool": lambda: run_pool(method),
        "executor": run_executor,
        "threads": run_forks_in_threads,
        "subprocesses": run_subprocesses,
        "daemon": run_daemon,
        "here": work_all,
    }[kind]()
