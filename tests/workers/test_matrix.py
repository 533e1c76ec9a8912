"""Servers that make workers, with no configuration but `pyrometer run` in front.

A few by default; PYROMETER_SERVERS=all runs all of them, and holds their graceful stop against that
of the same server without the profiler. A server that is not on this machine is skipped.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from harness import START_SECONDS, check, wait_until

ALL = os.environ.get("PYROMETER_SERVERS") == "all"

# The steps of a test have limits of their own.
pytestmark = pytest.mark.timeout(600)


def choose(rows):
    """Rows of (name, is in the default set, ...) as parameters."""
    return [pytest.param(*row[2:], id=row[0]) for row in rows if ALL or row[1]]


def gunicorn(*words):
    return lambda place: [
        *(sys.executable, "-m", "gunicorn", "-b", f"127.0.0.1:{place.port}", "-w", "2"),
        *words,
    ]


def uvicorn(*words):
    return lambda place: [
        *(sys.executable, "-m", "uvicorn", "application:asgi", "--port", str(place.port)),
        *("--log-level", "warning", *words),
    ]


def uwsgi(*words):
    def command(place):
        program = place.packages / "bin" / "uwsgi"
        if not program.exists():
            pytest.skip("PyPI's uWSGI is not there")
        return [program, "--home", place.packages, *uwsgi_words(place), *words]

    return command


def debian_uwsgi(*words):
    def command(place):
        program = shutil.which("uwsgi-core")
        plugin = "/usr/lib/uwsgi/plugins/python3_plugin.so"
        command = ["ldd", plugin]
        needed = subprocess.run(command, capture_output=True, text=True).stdout
        if program is None or f"libpython3.{sys.version_info.minor}." not in needed:
            pytest.skip("Debian's uWSGI is for another Python")
        return [program, "--plugin", "python3", *uwsgi_words(place), *words]

    return command


def uwsgi_words(place):
    return [
        *("--http-socket", f"127.0.0.1:{place.port}", "--module", "application"),
        *("--processes", "2", "--die-on-term", "--disable-logging"),
    ]


WSGI = "application"
ASGI = "application:asgi"
UVICORN_WORKER = ("-k", "uvicorn.workers.UvicornWorker")

SERVERS = [
    ("gunicorn-sync", False, gunicorn(WSGI)),
    ("gunicorn-sync-preload", True, gunicorn("--preload", WSGI)),
    ("gunicorn-gthread", False, gunicorn("--threads", "4", WSGI)),
    ("gunicorn-gthread-preload", False, gunicorn("--threads", "4", "--preload", WSGI)),
    ("gunicorn-gevent", False, gunicorn("-k", "gevent", WSGI)),
    ("gunicorn-gevent-preload", False, gunicorn("-k", "gevent", "--preload", WSGI)),
    ("gunicorn-uvicorn", False, gunicorn(*UVICORN_WORKER, ASGI)),
    ("gunicorn-uvicorn-preload", False, gunicorn(*UVICORN_WORKER, "--preload", ASGI)),
    ("uvicorn-workers", True, uvicorn("--workers", "2")),
    ("uwsgi", False, uwsgi()),
    ("uwsgi-master", True, uwsgi("--master")),
    ("uwsgi-lazy", False, uwsgi("--master", "--lazy-apps")),
    ("uwsgi-threads", False, uwsgi("--master", "--enable-threads", "--threads", "2")),
    ("uwsgi-lazy-threads", False, uwsgi("--master", "--lazy-apps", "--threads", "2")),
    ("debian-uwsgi", False, debian_uwsgi()),
    ("debian-uwsgi-master", False, debian_uwsgi("--master")),
    ("debian-uwsgi-lazy", False, debian_uwsgi("--master", "--lazy-apps")),
    ("debian-uwsgi-threads", False, debian_uwsgi("--master", "--threads", "2")),
]


def start(place, command, profiled=True, **more):
    process = place.start(command, profiled, **more)
    try:
        wait_until(place.answers, START_SECONDS, place.log.read_text)
    except AssertionError:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(place.text()) from None
    return process


def check_end(seconds, bare):
    print(f"graceful stop: {seconds:.2f} s, without the profiler {bare:.2f} s")
    assert seconds < bare + 1.5


@pytest.mark.parametrize("make", choose(SERVERS))
def test_server(place, make):
    """BR-114, BR-120, BR-121: preloaded or not, of every kind of worker."""
    command = make(place)
    process = start(place, command)
    place.load()
    seconds = place.end(process)
    check(place)
    if ALL:
        # The same again without the profiler, which is switched off in all of it.
        process = start(place, command, profiled=False)
        place.ask("/busy")
        check_end(seconds, place.end(process))


def both_answer(place, workers):
    with ThreadPoolExecutor(2) as clients:
        list(clients.map(place.ask, ["/busy", "/busy"]))
    return len(place.truths()) >= workers


@pytest.mark.skipif(not ALL, reason="PYROMETER_SERVERS=all")
@pytest.mark.parametrize("lazy", [[], ["--lazy-apps"]], ids=["", "lazy"])
@pytest.mark.parametrize("skip", [[], ["--skip-atexit"]], ids=["", "skip-atexit"])
@pytest.mark.parametrize("master", [[], ["--master"]], ids=["", "master"])
def test_br_119_restarts_of_uwsgi(place, lazy, skip, master):
    """PYROMETER_RESTARTS of each: no hang, no crash."""
    for turn in range(1, int(os.environ.get("PYROMETER_RESTARTS", "2")) + 1):
        process = start(place, uwsgi(*lazy, *skip, *master)(place))
        # uWSGI itself waits a minute for a worker that is to end before it has come to wait for
        # requests: on a busy machine 9 of 24 times without any profiler.
        wait_until(partial(both_answer, place, 2 * turn), START_SECONDS, place.text)
        place.end(process)
        assert process.returncode == 0 or not master, place.text()
    for word in ("Traceback", "Segmentation Fault", "process got", "DAMN"):
        assert word not in place.text(), place.text()


@pytest.mark.skipif(not ALL, reason="PYROMETER_SERVERS=all")
@pytest.mark.parametrize("preload", [[], ["--preload"]], ids=["", "preload"])
def test_workers_that_are_replaced_after_some_requests(place, preload):
    process = start(place, gunicorn("--max-requests", "12", *preload, WSGI)(place))
    place.load(workers=1000)
    place.end(process)
    check(place, least_workers=6, together=True)


@pytest.mark.skipif(not ALL, reason="PYROMETER_SERVERS=all")
def test_graceful_reload_of_gunicorn(place):
    process = start(place, gunicorn(WSGI)(place))
    place.load(workers=3, between=lambda: process.send_signal(signal.SIGHUP))
    place.end(process)
    check(place, least_workers=4, together=True)


@pytest.mark.skipif(not ALL, reason="PYROMETER_SERVERS=all")
def test_reload_of_uvicorn(place):
    source = place.folder / "watched.py"
    source.write_text("")
    command = uvicorn("--reload", "--reload-dir", str(place.folder))(place)
    process = start(place, command)

    def touch():
        source.write_text("changed = True")
        time.sleep(1)
        wait_until(place.answers, START_SECONDS, "no answer after a reload")

    place.load(workers=2, between=touch)
    place.end(process)
    check(place, least_workers=2, together=True)


# ------------------------------------------------------------------------------- jobs and pools


@pytest.mark.skipif(
    not ALL and os.environ.get("PYROMETER_SERVERS") != "jobs", reason="PYROMETER_SERVERS=all"
)
def test_rq(place):
    server = shutil.which("redis-server")
    if server is None:
        pytest.skip("redis-server is not there")
    redis = subprocess.Popen(
        [server, "--port", str(place.port), "--save", "", "--bind", "127.0.0.1"],
        cwd=place.folder,
        stdout=subprocess.DEVNULL,
    )
    url = f"redis://127.0.0.1:{place.port}"
    enqueue = """
import sys, redis, rq, time
connection = redis.Redis.from_url(sys.argv[1])
for _ in range(100):
    try:
        connection.ping()
        break
    except redis.ConnectionError:
        time.sleep(0.05)
queue = rq.Queue(connection=connection)
for _ in range(2):
    queue.enqueue("jobs.long_job")
"""
    try:
        place.run("-c", enqueue, url)
        process = place.start([place.packages / "bin" / "rq", "worker", "--url", url, "--burst"])
        assert process.wait(60) == 0, place.text()
    finally:
        redis.terminate()
        redis.wait()
    check(place, together=True)


def test_celery(place):
    command = [
        *(sys.executable, "-m", "celery", "-A", "jobs", "worker", "-c", "2", "-P", "prefork"),
        *("--loglevel", "WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat"),
    ]
    send = "import jobs\nfor path in ['/busy', '/other'] * 30: jobs.work.delay(path)"

    def work(profiled):
        before = place.total()
        process = place.start(command, profiled, C_FORCE_ROOT="1")
        place.run("-c", send)
        wait_until(lambda: place.total() > before + 1.75, 60, "celery does not work")
        return place.end(process)

    seconds = work(profiled=True)
    check(place, together=True)
    if ALL:
        check_end(seconds, work(profiled=False))


POOLS = [
    ("multiprocessing-fork", False),
    ("multiprocessing-spawn", False),
    ("multiprocessing-forkserver", False),
    ("pool-fork", False),
    ("pool-spawn", False),
    ("pool-forkserver", False),
    ("executor", False),
    ("threads", False),
    ("subprocesses", False),
    ("daemon", True),
]


@pytest.mark.parametrize("kind", choose([(name, default, name) for name, default in POOLS]))
def test_pool(place, kind):
    """Programs that make workers of their own."""
    program = os.path.join(os.path.dirname(__file__), "pools.py")
    # Other programs that the program starts are profiled only where that is asked for.
    new = kind == "subprocesses"
    more = {"PYROMETER_SUBPROCESSES": "true"} if new else {}
    process = place.start([sys.executable, program, kind], **more)
    assert process.wait(90) == 0, place.text()
    if kind == "daemon":
        wait_until(lambda: list((place.folder / "out").glob("*.json")), 30, "no profile")
    check(place, least_workers=1 if kind == "daemon" else 2, linked=not new, together=True)
    assert place.total() > 0.7
