"""Receivers that do not do what they should, and what the program notices of it: nothing."""

import os
import signal
import socket
import struct
import subprocess
import time

import pytest
from agent import finish, run, spooled, start
from stub import Stub, free_port

# A program that makes windows when it is told to.
ON_COMMAND = """
print("ready", flush=True)
for line in sys.stdin:
    if line == "window\\n":
        print(window(30), flush=True)
    else:
        break
"""


def begin(folder, **settings):
    process = start(folder, ON_COMMAND, **settings)
    assert process.stdout.readline() == "ready\n"
    return process


def tell_window(process, is_delivered):
    process.stdin.write("window\n")
    process.stdin.flush()
    assert process.stdout.readline() == f"{is_delivered}\n"


# ---------------------------------------------------------------------------- one bad answer


def reset(handler, request):
    """Ends the connection by RST."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def close_silently(handler, request):
    pass


def half_an_answer(handler, request):
    handler.wfile.write(b"HTTP/1.1 50")


def no_http(handler, request):
    handler.wfile.write(b"\x15\x03\x01\x00\x02\x02\x46 this is something else\r\n\r\n")


@pytest.mark.parametrize(
    "behaviour",
    [408, 429, 502, reset, close_silently, half_an_answer, no_http],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_failure_that_passes_is_tried_again(tmp_path, stub, behaviour):
    """Within the same interval; nothing is lost, nothing is sent twice once it was accepted."""
    first = []

    def once(handler, request):
        if not first:
            first.append(time.monotonic())
            if callable(behaviour):
                behaviour(handler, request)
            else:
                handler.answer(behaviour, {})
        else:
            stub.uploads.append(request)
            handler.answer(200, {})

    stub.behaviour = once
    done = run(tmp_path, "assert window()\nprofiler.stop(flush=False)", PYROMETER_URL=stub.url)
    assert (done.code, done.err) == (0, "")
    assert len(stub.attempts) == 2 and len(stub.uploads) == 1
    assert stub.attempts[0].body == stub.attempts[1].body
    assert stub.attempts[1].at - stub.attempts[0].at > 0.4  # it waited before
    assert not spooled(tmp_path)


@pytest.mark.parametrize("status", [400, 403, 404, 413])
def test_a_refusal_is_one_line_and_the_end_of_it(tmp_path, stub, status):
    stub.behaviour = status
    source = "for _ in range(3): window()\nprofiler.stop(flush=False)"
    done = run(tmp_path, source, PYROMETER_URL=stub.url)
    assert done.code == 0
    assert len(stub.attempts) == 3
    assert len(done.lines) == 1 and f"says {status}" in done.err and "lost" in done.err
    assert not spooled(tmp_path)


def test_redirections_are_not_followed(tmp_path, make_stub):
    elsewhere, stub = make_stub(), make_stub()
    stub.behaviour = 307
    stub.more_headers = {"Location": f"{elsewhere.url}/profiling/v1/input"}
    done = run(
        tmp_path, "window()\nprofiler.stop(flush=False)", PYROMETER_URL=stub.url,
        PYROMETER_HTTP_HEADERS="X-Pass:secret",
    )  # fmt: skip
    assert not elsewhere.attempts
    assert len(done.lines) == 1 and elsewhere.url in done.err and "not followed" in done.err
    assert len(spooled(tmp_path)) == 1  # it can be sent when the address is mended


def test_an_accepted_upload_counts_whatever_follows(tmp_path, stub):
    """The answer is cut off behind its first line: sending again would make it twice."""

    def truncate(handler, request):
        stub.uploads.append(request)
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort")

    stub.behaviour = truncate
    done = run(tmp_path, "window()\nprofiler.stop(flush=False)", PYROMETER_URL=stub.url)
    assert (done.code, done.err, len(stub.uploads)) == (0, "", 1)
    assert not spooled(tmp_path)


def test_retry_after_is_honoured(tmp_path, stub):
    def later(handler, request):
        if len(stub.attempts) == 1:
            handler.answer(429, {"Retry-After": "2"})
        else:
            stub.uploads.append(request)
            handler.answer(202, {})

    stub.behaviour = later
    run(tmp_path, "window()\nprofiler.stop(flush=False)", PYROMETER_URL=stub.url)
    assert stub.attempts[1].at - stub.attempts[0].at >= 2


def test_a_slow_receiver_gets_its_time(tmp_path, stub):
    def slow(handler, request):
        stub.uploads.append(request)
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":
            handler.wfile.write(bytes([byte]))
            time.sleep(0.04)

    stub.behaviour = slow
    done = run(tmp_path, "window()\nprofiler.stop(flush=False)", PYROMETER_URL=stub.url)
    assert (done.err, len(stub.uploads)) == ("", 1)


# --------------------------------------------------------------------------------- outages


@pytest.mark.parametrize("kind", ["closed port", 503, "no such host"])
def test_br_125_ten_intervals_without_a_receiver(tmp_path, make_stub, kind):
    """BR-049 too: one line for the outage, all windows on disk, little CPU."""
    url = f"http://127.0.0.1:{free_port()}"
    if kind == 503:
        made = make_stub()
        made.behaviour = 503
        url = made.url
    elif kind == "no such host":
        url = "http://nowhere.invalid:8126"
    source = """
    for _ in range(10):
        window()
    print(profiler.status()["cost"]["export_cpu_ns"])
    profiler.stop(flush=False)
    """
    done = run(tmp_path, source, PYROMETER_URL=url)
    assert done.code == 0
    assert len(done.lines) == 1 and "wait on disk" in done.err
    assert "Traceback" not in done.err
    assert len(spooled(tmp_path)) == 10
    assert int(done.out) < 2e9
    if kind == 503:  # three times in the first interval; later the oldest and the newest, once
        assert len(made.attempts) == 3 + 2 * 9


def test_dead_and_back(tmp_path):
    """No window is lost: oldest first when the receiver is back, and one line for each change."""
    port = free_port()
    process = begin(tmp_path, PYROMETER_URL=f"http://127.0.0.1:{port}", PYROMETER_TAGS="n:1")
    for _ in range(4):
        tell_window(process, False)
    assert len(spooled(tmp_path)) == 4
    stub = Stub(port=port)
    tell_window(process, True)
    assert not spooled(tmp_path)
    starts = [upload.event()["start"] for upload in stub.uploads]
    assert len(starts) == 5 and starts == sorted(starts)
    stub.close()
    done = finish(process)
    assert done.code == 0
    assert len(done.lines) == 2 or (len(done.lines) == 3 and "cannot" in done.lines[2])
    assert "cannot be delivered" in done.lines[0] and "delivered again" in done.lines[1]


def test_the_next_run_sends_what_a_killed_one_left(tmp_path, stub):
    """kill -9 in the middle of an outage: what is on disk is whole, and anybody sends it."""
    process = begin(tmp_path, PYROMETER_URL=stub.url)
    stub.behaviour = 503
    tell_window(process, False)
    tell_window(process, False)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finish(process)
    assert len(spooled(tmp_path)) == 2
    other = tmp_path / "spool" / f"{time.time_ns():020d}-1-1.0000000000000000.request"
    other.write_bytes(b"for another receiver")
    stub.behaviour = 200
    done = run(tmp_path, "assert window()\nprofiler.stop(flush=False)", PYROMETER_URL=stub.url)
    assert (done.code, done.err) == (0, "")
    pids = [dict(upload.tags())["process_id"] for upload in stub.uploads]
    assert pids[:2] == [str(process.pid)] * 2 and pids[2] != str(process.pid)
    assert spooled(tmp_path) == [other]


def test_one_that_is_never_taken_does_not_keep_the_others_waiting(tmp_path, stub):
    process = begin(tmp_path, PYROMETER_URL=stub.url)
    stub.behaviour = 503
    tell_window(process, False)
    tell_window(process, False)
    poison = spooled(tmp_path)[0]
    body = poison.read_bytes().split(b"\n\n", 1)[1]

    def choosy(handler, request):
        if request.body == body:
            handler.answer(500, {})
        else:
            stub.uploads.append(request)
            handler.answer(200, {})

    stub.behaviour = choosy
    tell_window(process, True)
    tell_window(process, True)
    finish(process)
    assert len({one.event()["start"] for one in stub.uploads}) == len(stub.uploads) >= 3
    assert spooled(tmp_path) == [poison]


def test_many_processes_share_a_spool(tmp_path, stub):
    """Everything is sent, nothing twice, by six processes with one folder."""
    stub.behaviour = 503
    processes = [begin(tmp_path, PYROMETER_URL=stub.url) for _ in range(4)]
    for process in processes:
        tell_window(process, False)
        tell_window(process, False)
    assert len(spooled(tmp_path)) == 8
    stub.behaviour = 200
    stub.attempts.clear()
    for process in processes:  # all at once
        process.stdin.write("window\n")
        process.stdin.flush()
    for process in processes:
        assert process.stdout.readline() == "True\n"
    for process in processes:
        finish(process)
    seen = [(dict(one.tags())["process_id"], one.event()["start"]) for one in stub.uploads]
    assert len(seen) >= 12 and len(set(seen)) == len(seen)
    assert not spooled(tmp_path)


def test_the_spool_is_bounded(tmp_path):
    source = "for _ in range(8): window()\nprofiler.stop(flush=False)"
    url = f"http://127.0.0.1:{free_port()}"
    done = run(
        tmp_path, source, PYROMETER_URL=url, PYROMETER_SPOOL_MAX_BYTES="10KB",
        DD_PROFILING_ENABLE_CODE_PROVENANCE="false",
    )  # fmt: skip
    kept = spooled(tmp_path)
    assert done.code == 0 and 1 <= len(kept) < 8
    assert sum(file.stat().st_size for file in kept) <= 10_000


def test_old_uploads_go(tmp_path):
    (tmp_path / "spool").mkdir(mode=0o700)
    old = tmp_path / "spool" / "01000000000000000000-1-0000000000000000.0000000000000000.request"
    old.write_bytes(b"x")
    other = tmp_path / "spool" / "notes.request"
    other.write_bytes(b"not ours")
    url = f"http://127.0.0.1:{free_port()}"
    run(tmp_path, "window()\nprofiler.stop(flush=False)", PYROMETER_URL=url)
    assert not old.exists() and other.exists()
    assert len(list((tmp_path / "spool").glob("0*.request"))) == 1


# ---------------------------------------------------------------------------- bad places


@pytest.fixture
def small_disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    disk = tmp_path / "spool"
    disk.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k,mode=700", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting is not permitted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_a_spool_that_cannot_be_written(tmp_path, small_disk, kind):
    """The last windows are kept in memory instead, and arrive when the receiver is back."""
    if kind == "full":
        (small_disk / "full").write_bytes(b"x" * 8192)
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    port = free_port()
    process = begin(tmp_path, PYROMETER_URL=f"http://127.0.0.1:{port}")
    tell_window(process, False)
    tell_window(process, False)
    stub = Stub(port=port)
    tell_window(process, True)
    starts = [upload.event()["start"] for upload in stub.uploads]
    assert len(starts) == 3 and starts == sorted(starts)
    done = finish(process)
    stub.close()
    assert done.code == 0
    assert "cannot be written" in done.lines[0] and "again" in done.lines[1]
    assert len(done.lines) == 2


# No file system can be written to at all, as in many a container.
READ_ONLY_ROOT = """
mount --make-rprivate / || exit 77
while read -r _ _ _ _ place _; do
    mount -o remount,ro,bind "$place" 2>/dev/null
done </proc/self/mountinfo
touch "$HERE/x" /tmp/x /dev/shm/x 2>/dev/null && exit 77
exec "$0" "$@"
"""


@pytest.mark.parametrize("dead", [False, True], ids=["well", "dead"])
def test_a_read_only_root(tmp_path, make_stub, dead):
    """What is sent needs no disk; in an outage the last windows wait in memory."""
    port = free_port()
    wrapper = ("unshare", "--mount", "bash", "-c", READ_ONLY_ROOT)
    stub = None if dead else Stub(port=port)
    process = start(
        tmp_path, ON_COMMAND, wrapper=wrapper, HERE=str(tmp_path),
        PYROMETER_URL=f"http://127.0.0.1:{port}", PYROMETER_SPOOL_DIR=None,
    )  # fmt: skip
    if process.stdout.readline() != "ready\n":
        assert process.wait() in (1, 77), process.stderr.read()
        pytest.skip("mounting is not permitted here")
    tell_window(process, not dead)
    stub = stub or Stub(port=port)
    tell_window(process, True)
    done = finish(process)
    stub.close()
    assert done.code == 0 and len(stub.uploads) >= 2
    starts = [upload.event()["start"] for upload in stub.uploads]
    assert starts == sorted(set(starts))
    assert len(done.lines) == (2 if dead else 0), done.err


def test_another_user_than_root_in_an_outage(tmp_path, make_stub):
    """Windows wait in a folder of that user's own that nobody else can read; the next one sends."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    right = "dac_read_search"  # to find an interpreter that is root's
    wrapper = (
        *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
        *(f"--inh-caps=-all,+{right}", f"--ambient-caps=+{right}"),
    )
    temporary = tmp_path / "t"
    temporary.mkdir()
    os.chown(temporary, 65534, 65534)
    stub = make_stub()
    stub.behaviour = 503
    settings = {
        "PYROMETER_URL": stub.url, "PYROMETER_SPOOL_DIR": None, "TMPDIR": str(temporary),
        "HOME": "/nonexistent", "XDG_CACHE_HOME": None, "XDG_STATE_HOME": None,
    }  # fmt: skip
    source = "window()\nprofiler.stop(flush=False)"
    done = run(tmp_path, source, wrapper=wrapper, **settings)
    assert done.code == 0 and len(done.lines) == 1 and "wait on disk" in done.err
    (kept,) = temporary.glob("**/*.request")
    assert kept.stat().st_uid == 65534
    assert kept.parent.stat().st_mode & 0o077 == 0
    stub.behaviour = 200
    done = run(tmp_path, source, wrapper=wrapper, **settings)
    assert (done.code, done.err) == (0, "")
    assert len(stub.uploads) == 2 and not kept.exists()


def test_a_spool_of_somebody_else_is_not_used(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    (tmp_path / "spool").mkdir()
    os.chown(tmp_path / "spool", 12345, 12345)
    url = f"http://127.0.0.1:{free_port()}"
    done = run(tmp_path, "window()\nprofiler.stop(flush=False)", PYROMETER_URL=url)
    assert len(done.lines) == 1 and "not permitted" in done.err
    assert not spooled(tmp_path)


# -------------------------------------------------------------------------------------- ends


def hang(handler, request=None):
    time.sleep(30)


@pytest.mark.parametrize("when", ["connect", "answer"])
def test_a_hanging_receiver_delays_the_end_by_a_second_at_most(tmp_path, stub, when):
    """And both windows, the one under way and the last one, are on disk. BR-123."""
    if when == "connect":
        stub.before_reading = hang
    else:
        stub.behaviour = hang
    source = """
    import threading
    threading.Thread(target=window, args=(0.01,), daemon=True).start()
    time.sleep(0.6)  # the upload hangs now
    begin = time.monotonic()
    profiler.stop()
    print(time.monotonic() - begin)
    """
    done = run(tmp_path, source, PYROMETER_URL=stub.url, PYROMETER_EXIT_TIMEOUT="1s")
    assert done.code == 0
    assert float(done.out) < 1.5
    assert len(spooled(tmp_path)) == 2, done.err
    assert "Traceback" not in done.err


def test_sigterm_while_the_receiver_hangs(tmp_path, stub):
    stub.behaviour = hang
    process = start(
        tmp_path,
        """
        import threading
        threading.Thread(target=window, daemon=True).start()
        time.sleep(0.5)
        print("ready", flush=True)
        time.sleep(30)
        """,
        PYROMETER_URL=stub.url,
        PYROMETER_EXIT_TIMEOUT="1s",
    )
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    done = finish(process)
    assert done.code == -signal.SIGTERM
    assert done.seconds < 3
    assert spooled(tmp_path)


def test_br_113_fork_does_not_wait_for_an_upload(tmp_path, stub):
    stub.behaviour = hang
    source = """
    import threading
    threading.Thread(target=window, daemon=True).start()
    time.sleep(0.5)
    times = []
    for _ in range(5):
        begin = time.monotonic()
        child = os.fork()
        if child == 0:
            os._exit(0)
        times.append(time.monotonic() - begin)
        os.waitpid(child, 0)
    print(min(times))
    """
    done = run(tmp_path, source, PYROMETER_URL=stub.url, PYROMETER_EXIT_TIMEOUT="1s")
    assert done.code == 0 and float(done.out) < 0.05


def test_br_123_ends_at_random_moments(tmp_path, stub):
    """The program's own exit code, always, while uploads are under way."""

    def slow(handler, request):
        time.sleep(0.15)
        handler.answer(200, {})

    stub.behaviour = slow
    running = []
    for number in range(16):
        source = f"""
        import threading
        threading.Thread(target=window, daemon=True).start()
        time.sleep({number * 0.019})
        sys.exit(7)
        """
        folder = tmp_path / str(number)
        folder.mkdir()
        running.append(start(folder, source, PYROMETER_URL=stub.url, PYROMETER_EXIT_TIMEOUT="1s"))
        if len(running) == 4:
            outcomes = [finish(process) for process in running]
            running.clear()
            assert [done.code for done in outcomes] == [7] * 4
            assert all("Traceback" not in done.err for done in outcomes)
