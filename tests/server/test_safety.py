"""Who may ask what, and what hostile or broken clients achieve: nothing."""

import base64
import gzip
import os
import random
import signal
import socket
import sqlite3
import ssl
import subprocess
import threading
import time

import pytest
from conftest import Server, make_profile, pprof, program, run


def write_token(path, token):
    path.write_text(token + "\n")
    return path


# ------------------------------------------------------------------------- who may ask what


def test_an_address_that_others_reach_needs_tokens(tmp_path):
    done = run("serve", "--listen", "0.0.0.0:0", "--data", tmp_path / "store")
    assert done.returncode == 2
    assert "0.0.0.0:0 can be reached by others" in done.stderr
    assert done.stderr.count("\n") == 1


def test_tokens(tmp_path):
    read = write_token(tmp_path / "read", "r" * 20)
    ingest = write_token(tmp_path / "ingest", "i" * 20)
    options = ["--read-token-file", str(read), "--ingest-token-file", str(ingest)]
    server = Server(tmp_path / "store", *options, listen="0.0.0.0:0")
    profile = pprof.write(make_profile(1))

    def upload(**headers):
        return server.ask("POST", "/api/upload", profile, headers, service="a").code

    def top(**headers):
        return server.ask("GET", "/api/services", None, headers).code

    assert upload() == 401 and top() == 401
    assert upload(Authorization="Bearer " + "r" * 20) == 401
    assert top(Authorization="Bearer " + "i" * 20) == 401
    assert upload(Authorization="Bearer " + "i" * 19) == 401
    assert upload(Authorization="Bearer " + "i" * 20) == 200
    assert upload(**{"DD-API-KEY": "i" * 20}) == 200
    basic = base64.b64encode(b"user:" + b"i" * 20).decode()
    assert upload(Authorization=f"Basic {basic}") == 200
    assert top(Authorization="Bearer " + "r" * 20) == 200
    assert top(**{"X-Pyrometer-Token": "r" * 20}) == 200
    assert server.ask("GET", "/metrics").code == 401
    assert server.ask("GET", "/healthz").code == 200  # says nothing of anybody
    assert server.ask("GET", "/").code == 200  # the page itself holds no data
    # With a token no Host is wrong: who has it may come by any name.
    assert top(Authorization="Bearer " + "r" * 20, Host="profiles.example") == 200
    assert server.stop() == (0, "")


def test_a_pattern_that_would_take_the_cpu(server):
    profile = pprof.write(make_profile(1))
    assert server.ask("POST", "/api/upload", profile, service="a" * 120 + "!").code == 200
    for path in ("/api/top", "/api/profiles", "/api/series", "/api/labels"):
        answer = server.ask("GET", f"{path}?where=service=~(a%2B)%2B")
        assert answer.code == 400 and b"too many steps" in answer.body, path


def test_short_tokens_are_refused(tmp_path):
    token = write_token(tmp_path / "token", "short")
    done = run("serve", "--read-token-file", token, "--data", tmp_path / "store")
    assert done.returncode == 2 and "16 to" in done.stderr


@pytest.mark.parametrize("path", ["/api/services", "/metrics", "/api/upload?service=a"])
def test_pages_of_others_get_nothing(server, path):
    method = "POST" if "upload" in path else "GET"
    body = pprof.write(make_profile(1)) if method == "POST" else None
    own = f"127.0.0.1:{server.port}"

    def code(**headers):
        return server.ask(method, path, body, headers).code

    assert code(Host="evil.example") == 421  # a name that leads here: DNS rebinding
    assert code(Host=f"evil.example:{server.port}") == 421
    assert code(Host="127.0.0.1.evil.example") == 421
    assert code(Origin="http://evil.example") == 403
    assert code(Origin="null") == 403
    assert code(Origin="http://127.0.0.1:1") == 403  # another port is another origin
    assert code(**{"Sec-Fetch-Site": "cross-site"}) == 403
    assert code(**{"Sec-Fetch-Site": "same-site"}) == 403
    assert code(Host=own, Origin=f"http://{own}") == 200
    assert code(Host=f"localhost:{server.port}") == 200
    assert code(Host="[::1]:80") == 200


def test_answers_carry_what_keeps_browsers_safe(server):
    for path in "/", "/api/services", "/nothing":
        headers = server.ask("GET", path).headers
        assert headers["Server"].startswith("pyrometer/")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in headers
        assert headers["Cache-Control"] == "no-store"
    page = server.ask("GET", "/").body.decode()
    assert "script-src 'sha256-" in page and "connect-src 'self'" in page


def test_unix_socket(tmp_path):
    path = tmp_path / "s"
    server = Server(tmp_path / "store", listen=f"unix:{path}")
    assert os.stat(path).st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: anything\r\nConnection: close\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    assert server.stop() == (0, "")
    assert not path.exists()


def test_tls(tmp_path):
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    server = Server(
        tmp_path / "store", "--tls-certificate", str(certificate), "--tls-key", str(key)
    )
    assert server.url.startswith("https://")
    context = ssl.create_default_context(cafile=certificate)
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200")
    assert server.stop() == (0, "")


# ----------------------------------------------------------------------- hostile and broken


def test_wrong_requests_get_reasons(server):
    for method, path, code in [
        ("GET", "/nothing", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/api/%2e%2e/%2e%2e/etc/passwd", 404),
        ("GET", "/profiling/v1/input", 405),
        ("DELETE", "/api/top", 405),
        ("GET", "/api/top?from=never", 400),
        ("GET", "/api/top?from=now&until=now-1h", 400),
        ("GET", "/api/top?where=x", 400),
        ("GET", "/api/top?where=x=~(", 400),
        ("GET", "/api/top?where=x=~a{2,1}", 400),
        ("GET", "/api/top?query={a=1}", 400),
        ("GET", "/api/top?by=colour", 400),
        ("GET", "/api/top", 404),
        ("GET", "/api/diff", 400),
        ("GET", "/api/series?step=1", 400),
        ("GET", "/api/window?profile=7", 404),
        ("DELETE", "/api/pins?pin=7", 404),
        ("POST", "/api/upload", 400),
        ("POST", "/profiling/v1/input", 400),
        ("POST", "/push.v1.PusherService/Push", 415),
        ("POST", "/ingest", 400),
        ("GET", "/api/top?" + "&".join(f"a{n}=1" for n in range(100)), 414),
    ]:
        answer = server.ask(method, path)
        assert answer.code == code, (method, path, answer.code, answer.body)
        assert answer.json.get("error") or answer.json["message"], path


def test_bodies_that_are_too_large(server):
    head = b"POST /api/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(head)
        assert b" 413 " in client.recv(200)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(
            b"POST /api/upload HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        answer = b""
        try:
            for _ in range(40):
                client.sendall(piece)
            client.sendall(b"0\r\n\r\n")
            answer = client.recv(200)
        except OSError:
            pass  # it broke off, which is an answer too
        assert answer == b"" or b" 413 " in answer
    bomb = b"\x1f\x8b" + b"\0" * 1000
    assert server.upload(bomb).code == 400
    answer = server.upload(gzip.compress(b"\0" * (40 << 20)))
    assert answer.code == 413 and "at most" in answer.json["error"]
    assert server.get("/healthz")["status"] == "ok"


def test_damaged_profiles_are_refused_and_hurt_nothing(server):
    draw = random.Random(4)
    whole = pprof.write(make_profile(1), compressed=False)
    accepted = 0
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(draw.randrange(1, 6)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        damaged = bytes(damaged[: draw.randrange(len(damaged))]) if draw.random() < 0.3 else damaged
        answer = server.upload(bytes(damaged), service="damaged")
        assert answer.code in (200, 400, 413, 422), answer.body
        accepted += answer.code == 200
    assert server.upload(make_profile(1)).code == 200
    assert server.get("/api/top", service="shop", type="cpu-time")["total"] == make_profile(
        1
    ).total("cpu-time")
    assert 0 < accepted < 400


def test_ten_thousand_bad_requests(server):
    """Rubbish at every level: bytes, HTTP, multipart, protobuf; from ten connections at a time."""
    count = int(os.environ.get("PYROMETER_BAD_REQUESTS", "2000"))
    draw = random.Random(9)
    heads = [
        b"POST /profiling/v1/input HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: multipart/form-data; boundary=b\r\n",
        b"POST /push.v1.PusherService/Push HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/proto\r\n",
        b"POST /ingest?name=a HTTP/1.1\r\nHost: localhost\r\n",
        b"POST /api/upload?service=a HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n",
        b"POST /querier.v1.QuerierService/Series HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\n",
        b"GET /api/top?where=a=~%5B HTTP/1.1\r\nHost: localhost\r\n",
    ]
    part = b'--b\r\nContent-Disposition: form-data; name="event"\r\n\r\n{}\r\n--b--'
    starts = [b"--b\r\n", part, b"\x0a\x7f\x0a", b"{", b"a;b 1\n", b"\x1f\x8b\x08", b""]
    lock = threading.Lock()
    left = list(range(count))
    wrong = []

    def attack():
        while True:
            with lock:
                if not left:
                    return
                left.pop()
                body = draw.choice(starts) + draw.randbytes(draw.randrange(80))
                kind = draw.random()
                head = draw.choice(heads)
            if kind < 0.1:
                request = draw.randbytes(60) + b"\r\n\r\n"
            elif kind < 0.2:
                request = head + b"Content-Length: 1000\r\n\r\n" + body  # and breaks off
            else:
                request = head + b"Content-Length: %d\r\n" % len(body)
                request += b"Connection: close\r\n\r\n" + body
            try:
                with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
                    client.sendall(request)
                    if kind >= 0.2 and not client.recv(4096).startswith(b"HTTP/1.1 "):
                        wrong.append(request)
            except OSError as error:
                wrong.append((request, error))

    threads = [threading.Thread(target=attack) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong[:3]
    assert server.upload(make_profile(1)).code == 200
    assert server.get("/healthz")["status"] == "ok"


def test_a_thousand_clients_at_once(server):
    count = int(os.environ.get("PYROMETER_CLIENTS", "1000"))
    clients = []
    try:
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            clients.append(client)
        request = b"GET /api/services HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for client in clients:
            client.sendall(request)
        answers = [client.recv(4096)[:15] for client in clients]
        assert answers == [b"HTTP/1.1 200 OK"] * count
        with open(f"/proc/{server.process.pid}/status") as status:
            resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        assert resident < 200_000  # KiB
    finally:
        for client in clients:
            client.close()


def test_who_says_nothing_is_hung_up_on(server):
    """Slow loris: a byte now and then must not hold a connection for ever."""
    client = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    client.sendall(b"GET /api/services HTTP/1.1\r\nHost: localhost\r\n")
    start = time.monotonic()
    ended = False
    while not ended and time.monotonic() - start < 30:
        try:
            client.settimeout(2)
            client.sendall(b"X-A: b\r\n")
            ended = client.recv(100) == b""
        except TimeoutError:
            pass
        except OSError:
            ended = True
    assert ended and 7 < time.monotonic() - start < 25
    assert server.get("/healthz")["status"] == "ok"


# ------------------------------------------------------------------------------- its files


def test_two_servers_on_one_store(server):
    done = run("serve", "--listen", "127.0.0.1:0", "--data", server.folder)
    assert done.returncode == 2
    assert "another pyrometer writes the store" in done.stderr
    done = run("store", "compact", "--data", server.folder)
    assert done.returncode == 2 and "another pyrometer" in done.stderr


def test_a_store_of_a_newer_version_is_left_alone(tmp_path):
    server = Server(tmp_path / "store")
    assert server.upload(make_profile(1)).code == 200
    server.stop()
    with sqlite3.connect(tmp_path / "store" / "pyrometer.db") as database:
        database.execute("PRAGMA user_version=99")
    database.close()
    before = (tmp_path / "store" / "pyrometer.db").read_bytes()
    done = run("serve", "--listen", "127.0.0.1:0", "--data", tmp_path / "store")
    assert done.returncode == 2 and "newer Pyrometer" in done.stderr
    assert (tmp_path / "store" / "pyrometer.db").read_bytes() == before


def test_what_is_no_store_is_left_alone(tmp_path):
    (tmp_path / "store").mkdir()
    file = tmp_path / "store" / "pyrometer.db"
    file.write_bytes(b"something else entirely, and long enough to be looked at" * 20)
    before = file.read_bytes()
    done = run("serve", "--listen", "127.0.0.1:0", "--data", tmp_path / "store")
    assert done.returncode == 2 and "cannot be opened" in done.stderr
    assert file.read_bytes() == before


def test_a_full_disk_is_said_and_got_over(tmp_path):
    """A limit on the size of files stands for a full disk: writes fail, and later do not."""
    server = Server(tmp_path / "store")
    assert server.upload(make_profile(1)).code == 200
    size = sum(file.stat().st_size for file in (tmp_path / "store").iterdir())
    limit = ["prlimit", f"--pid={server.process.pid}", f"--fsize={size}:unlimited"]
    subprocess.run(limit, check=True)
    codes = {server.upload(make_profile(seed, samples=400)).code for seed in range(2, 12)}
    assert codes & {503, 507}, codes
    assert server.ask("GET", "/healthz").code == 503
    assert server.get("/api/services")["services"]
    limit[-1] = "--fsize=unlimited:unlimited"
    subprocess.run(limit, check=True)
    assert server.upload(make_profile(50)).code == 200
    assert server.get("/healthz")["status"] == "ok"
    assert server.stop()[0] == 0
    assert run("store", "check", "--data", tmp_path / "store").returncode == 0


def test_killed_at_any_moment_nothing_acknowledged_is_lost(tmp_path):
    rounds = int(os.environ.get("PYROMETER_KILL_ROUNDS", "6"))
    draw = random.Random(3)
    acknowledged = {}
    number = 0
    while rounds > 0 or len(acknowledged) < 10:  # a busy machine may acknowledge none in a round
        rounds -= 1
        server = Server(tmp_path / "store")
        stop = time.monotonic() + draw.uniform(0.05, 0.5)
        lock = threading.Lock()

        def send(server=server, lock=lock):
            nonlocal number
            while True:
                with lock:
                    number += 1
                    mine = number
                profile = make_profile(mine, samples=20)
                try:
                    if server.upload(profile, pid=mine).code == 200:
                        acknowledged[str(mine)] = profile.total("cpu-time")
                except OSError:
                    return

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(max(0, stop - time.monotonic()))
        server.process.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
        server.process.communicate()
    server = Server(tmp_path / "store")
    lines = server.get("/api/totals", type="cpu-time", by="pid", limit=1024)["lines"]
    kept = {line["name"]: line["sum"] for line in lines}
    known = {pid: value for pid, value in acknowledged.items() if value}
    if len(kept) < 1000:  # as many lines as an answer has
        assert {pid: kept.get(pid) for pid in known} == known
    assert server.stop() == (0, "")
    assert run("store", "check", "--data", tmp_path / "store").returncode == 0


def test_stopped_by_a_signal_it_ends_well(tmp_path):
    for how in signal.SIGINT, signal.SIGTERM:
        server = Server(tmp_path / "store")
        with socket.create_connection(("127.0.0.1", server.port)):
            assert server.stop(how) == (0, "")


def test_retention_and_pins(tmp_path):
    day = 86400 * 10**9
    now = int(time.time() * 10**9)
    server = Server(tmp_path / "store")
    for number in range(6):
        start = now - (6 - number) * day
        assert server.upload(make_profile(number, start), pid=number).code == 200
    pinned = server.ask(
        "POST",
        "/api/pins",
        note="before the fire",
        **{"from": now - 7 * day, "until": now, "where": "pid=1"},
    ).json
    assert pinned["profiles"] == 1
    assert server.get("/api/pins")["pins"][0]["note"] == "before the fire"
    server.stop()
    server = Server(tmp_path / "store", "--keep", "72h")
    deadline = time.monotonic() + 30
    pids = set()
    kept = {"1", "4", "5"}
    while pids - {"3"} != kept and time.monotonic() < deadline:
        time.sleep(0.2)
        lines = server.get("/api/totals", by="pid", type="cpu-time", **{"from": now - 9 * day})[
            "lines"
        ]
        pids = {line["name"] for line in lines if line["sum"]}
    assert pids - {"3"} == kept  # hours go whole: that of the third may be too young still
    assert server.ask("DELETE", "/api/pins", pin=pinned["pin"]).code == 200
    assert server.stop() == (0, "")


def test_store_delete_and_export(tmp_path):
    server = Server(tmp_path / "store")
    for service in "a", "b":
        for number in range(3):
            assert server.upload(make_profile(number), service=service, pid=number).code == 200
    server.stop()
    folder = tmp_path / "store"
    assert run("store", "delete", "--data", folder).returncode == 2
    done = run("store", "delete", "--data", folder, "--where", "state=io")
    assert done.returncode == 2 and "deleted whole" in done.stderr
    done = run("store", "delete", "--data", folder, "--where", "service=a", "--where", "pid=1")
    assert (done.returncode, done.stdout) == (0, "1 profiles deleted\n")
    target = tmp_path / "x.pprof"
    assert run("store", "export", "--data", folder, "-o", target).returncode == 0
    merged = pprof.parse(target.read_bytes())
    expected = 2 * sum(make_profile(number).total("cpu-time") for number in range(3))
    assert merged.total("cpu-time") == expected - make_profile(1).total("cpu-time")


def test_without_a_home_it_asks_for_a_folder(tmp_path):
    environment = {"PATH": os.environ["PATH"], "HOME": ""}
    done = subprocess.run(
        [program(), "serve"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "--data" in done.stderr


def test_names_of_any_length_and_content(server):
    """Types, labels and functions of thousands of bytes, with tabs and quotes."""
    for number, name in enumerate(["x" * 5000, "a\tb", 'q"\\\n', "é" * 3000, "<script>", "%s%n"]):
        made = make_profile(number)
        made.types[0] = (name, name)
        for sample in made.samples:
            sample.values[name] = sample.values.pop("cpu-time")
            sample.labels[name] = name
            sample.stack.append((name, name, 1))
        assert server.upload(made, service=name[:900], **{name[:100]: name}).code == 200
    for path in "types", "labels", "services", "flame", "document", "totals", "pprof", "profiles":
        answer = server.ask("GET", f"/api/{path}")
        assert answer.code == 200, (path, answer.body)
        if path != "pprof":
            assert answer.json
    assert server.ask("POST", "/querier.v1.QuerierService/ProfileTypes", b"{}").json["profileTypes"]
    assert server.ask("GET", "/metrics").code == 200
