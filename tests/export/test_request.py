"""What one upload consists of: the request, its parts, the event, the profile."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from agent import run, spooled
from stub import free_port

WINDOW = "assert window()\n"


def upload(folder, stub, source=WINDOW, **settings):
    done = run(folder, source, PYROMETER_URL=stub.url, **settings)
    assert done.code == 0
    assert stub.uploads, done.err
    return stub.uploads[0], done


def test_request_and_parts(tmp_path, stub):
    got, done = upload(tmp_path, stub)
    assert done.err == ""
    assert (got.method, got.path) == ("POST", "/profiling/v1/input")
    assert got.headers["dd-evp-origin"] == "pyrometer"
    assert got.headers["dd-evp-origin-version"] == "0.1.0"
    assert got.headers["user-agent"] == "pyrometer/0.1.0"
    assert got.headers["connection"] == "close"
    assert "expect" not in got.headers and "dd-api-key" not in got.headers
    assert int(got.headers["content-length"]) == len(got.body)
    parts = [(part.name, part.file_name, part.content_type) for part in got.parts()]
    assert parts == [
        ("event", "event.json", "application/json"),
        ("code-provenance.json", "code-provenance.json", None),
        ("profile.pprof", "profile.pprof", None),
    ]
    assert got.part("profile.pprof")[:4] == b"\x28\xb5\x2f\xfd"
    profile = got.profile()
    assert profile.types[:4] == [
        ("cpu-time", "nanoseconds"),
        ("cpu-samples", "count"),
        ("wall-time", "nanoseconds"),
        ("wall-samples", "count"),
    ]
    names = {name for sample in profile.samples for name, _, _ in sample.stack}
    assert "burn" in names


def test_event(tmp_path, stub):
    got, _ = upload(
        tmp_path, stub, DD_SERVICE="web", DD_ENV="prod", DD_VERSION="1.2", DD_API_KEY="secret-key"
    )
    event = got.event()
    assert list(event) == [
        "attachments", "tags_profiler", "start", "end", "family", "version", "endpoint_counts",
        "process_tags", "internal", "info",
    ]  # fmt: skip
    assert event["attachments"] == ["code-provenance.json", "profile.pprof"]
    assert (event["family"], event["version"]) == ("python", "4")
    assert event["endpoint_counts"] is None
    for key in "start", "end":
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", event[key])
    assert event["start"] < event["end"]
    tags = dict(got.tags())
    assert len(tags) == len(got.tags())
    assert (tags["service"], tags["env"], tags["version"]) == ("web", "prod", "1.2")
    assert (tags["language"], tags["runtime"]) == ("python", "CPython")
    assert tags["process_type"] == "main"
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", tags["runtime-id"])
    assert tags["runtime_version"] == sys.version.split()[0]
    assert int(tags["process_id"]) > 1
    assert "host" not in tags  # the Agent adds it
    process = dict(tag.split(":", 1) for tag in event["process_tags"].split(","))
    assert process["entrypoint.name"] == "program"
    assert process["entrypoint.type"] == "script"
    assert process["svc.user"] == "true"
    internal = event["internal"]
    assert internal["sample_count"] > 0 and internal["sampling_event_count"] > 0
    assert internal["sampling_interval_us"] >= 1000
    assert internal["cost.sampler_cpu_ns"] > 0 and "cost.export_cpu_ns" in internal
    settings = event["info"]["profiler"]["settings"]
    assert settings["SERVICE"] == "web"
    assert "secret-key" not in json.dumps(event)


@pytest.mark.parametrize(
    ("settings", "wanted", "warned"),
    [
        ({"DD_TAGS": "team:core,región:münchen,a:b:c"},
         {"team": "core", "región": "münchen", "a": "b:c"}, ""),
        ({"DD_TAGS": "team:core zone:eu"}, {"team": "core", "zone": "eu"}, ""),
        ({"DD_TAGS": "empty:,alone,:x,good:1,good:2"}, {"good": "1"}, "empty:"),
        ({"DD_TAGS": "env:from-tags,service:x", "DD_SERVICE": "web"},
         {"env": "from-tags", "service": "web"}, ""),
        ({"PYROMETER_SERVICE": "a,b\tc"}, {"service": "a_b_c"}, ""),
    ],
)  # fmt: skip
def test_br_127_tags(tmp_path, stub, settings, wanted, warned):
    """Each once, whatever stands in them; a bad one is one line, and the rest arrives."""
    got, done = upload(tmp_path, stub, **settings)
    tags = dict(got.tags())
    assert len(tags) == len(got.tags())
    assert {key: tags[key] for key in wanted} == wanted
    assert len(done.lines) == (1 if warned else 0)
    assert warned in done.err


def test_br_127_tags_of_the_interface(tmp_path, stub):
    source = """
    profiler.stop(flush=False)
    profiler = Profiler(tags={"number": 7, "team": "core"})
    profiler.start()
    assert window()
    """
    got, _ = upload(tmp_path, stub, source)
    assert {"number": "7", "team": "core"}.items() <= dict(got.tags()).items()


def test_runtime_ids_of_a_fork(tmp_path, stub):
    source = """
    assert window()
    child = os.fork()
    if child == 0:
        window()
        os._exit(0)
    os.waitpid(child, 0)
    """
    upload(tmp_path, stub, source)
    tags = [dict(got.tags()) for got in stub.uploads]
    assert len({one["runtime-id"] for one in tags}) == 2
    assert {one["process_type"] for one in tags} == {"main", "worker"}


def test_our_own_server_gets_the_document(tmp_path, stub):
    stub.is_pyrometer = True
    got, _ = upload(tmp_path, stub)
    assert got.event()["attachments"] == ["code-provenance.json", "pyrometer.json", "profile.pprof"]
    document = json.loads(got.part("pyrometer.json"))
    assert document["schema"] == 1 and document["window"]["samples"] > 0


def test_agentless(tmp_path, stub):
    key = "0123456789abcdef0123456789abcdef"
    done = run(
        tmp_path, WINDOW, DD_PROFILING_AGENTLESS="true", DD_API_KEY=key,
        PYROMETER_INTAKE_URL=stub.url,
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    got = stub.uploads[0]
    assert got.path == "/api/v2/profile"
    assert got.headers["dd-api-key"] == key
    assert "host" in dict(got.tags())
    assert key not in got.body.decode(errors="replace")


def test_the_key_is_never_written(tmp_path, stub):
    stub.behaviour = 503
    key = "0123456789abcdef0123456789abcdef"
    done = run(
        tmp_path, "window()\nprint(profiler.status())", DD_PROFILING_AGENTLESS="true",
        DD_API_KEY=key, PYROMETER_INTAKE_URL=stub.url, PYROMETER_HTTP_HEADERS="X-Pass:word-1234",
    )  # fmt: skip
    assert spooled(tmp_path)
    kept = b"".join(file.read_bytes() for file in (tmp_path / "spool").iterdir())
    assert key.encode() not in kept and b"word-1234" not in kept
    assert key not in done.out + done.err and "word-1234" not in done.out + done.err
    stub.behaviour = 200
    run(
        tmp_path, WINDOW, DD_PROFILING_AGENTLESS="true", DD_API_KEY=key,
        PYROMETER_INTAKE_URL=stub.url, PYROMETER_HTTP_HEADERS="X-Pass:word-1234",
    )  # fmt: skip
    assert {got.headers["dd-api-key"] for got in stub.uploads} == {key}
    assert {got.headers["x-pass"] for got in stub.uploads} == {"word-1234"}


def test_headers_that_would_change_the_body_are_left_out(tmp_path, stub):
    got, done = upload(
        tmp_path, stub, DD_EXTERNAL_ENV="a\r\nContent-Length: 5", PYROMETER_HTTP_HEADERS=
        "content-Length:5, Transfer-Encoding:chunked,X-One:1\r\nX-Two:2,X-Three:3",
    )  # fmt: skip
    assert got.tags() and got.headers["x-three"] == "3"
    assert "x-one" not in got.headers and "x-two" not in got.headers
    assert [line.split(":")[1] for line in done.lines] == [
        " content-length is left out", " transfer-encoding is left out"
    ]  # fmt: skip


def test_agentless_without_a_key_is_one_line(tmp_path):
    done = run(tmp_path, WINDOW, DD_PROFILING_AGENTLESS="true", PYROMETER_OUTPUT_PPROF="out/app")
    assert len(done.lines) == 1 and "DD_API_KEY" in done.err
    assert list((tmp_path / "out").glob("*.pprof"))


def test_git_and_kubernetes(tmp_path, stub):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "-b", "trunk"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    url = "https://user:pass@host.example/team/repo.git"
    subprocess.run([*git, "remote", "add", "origin", url], check=True)
    sha = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    got, _ = upload(
        tmp_path, stub, KUBERNETES_SERVICE_HOST="10.0.0.1", POD_NAME="web-1",
        POD_NAMESPACE="shop", NODE_NAME="node-7",
    )  # fmt: skip
    tags = dict(got.tags())
    assert tags["git.commit.sha"] == sha.strip()
    assert tags["git.repository_url"] == "https://host.example/team/repo.git"
    assert tags["pod_name"] == "web-1"
    assert tags["kube_namespace"] == "shop" and tags["kube_node"] == "node-7"


def make_distribution(folder: Path, name: str, files: list[str], **more: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n\nName: no")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file, text in more.items():
        (info / f"{file}.json").write_text(text)


def test_br_135_code_provenance(tmp_path, stub):
    """What is the user's own, what is not; made once for a parent and its workers."""
    site = tmp_path / "site"
    make_distribution(site, "Library", ["lib/__init__.py", "lib/sub/__init__.py", "single.py"])
    make_distribution(site, "name-spaced", ["google/api/__init__.py", "google/api/x.py"])
    make_distribution(site, "shop", ["shop/__init__.py"], direct_url='{"url": "", "dir_info": {}}')
    make_distribution(site, "main_app", ["app/__init__.py", "../../../bin/app"])
    source = """
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            window()
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    """
    got, _ = upload(tmp_path, stub, source, PYTHONPATH=str(site), DD_MAIN_PACKAGE="main-app")
    libraries = {library["name"]: library for library in got.provenance()}
    assert libraries["stdlib"]["kind"] == "standard library"
    assert str(Path(json.__file__).parent.parent) in libraries["stdlib"]["paths"]
    assert "<frozen importlib._bootstrap>" in libraries["stdlib"]["paths"]
    assert libraries["native"]["paths"] == ["<native>"]
    assert libraries["Library"]["kind"] == "library"
    assert libraries["Library"]["version"] == "1.0"
    assert sorted(libraries["Library"]["paths"]) == [f"{site}/lib", f"{site}/single.py"]
    assert libraries["name-spaced"]["paths"] == [f"{site}/google/api"]
    assert libraries["shop"]["kind"] == "" and libraries["main_app"]["kind"] == ""
    assert libraries["main_app"]["paths"] == [f"{site}/app"]
    assert len(stub.uploads) >= 4
    assert len(list((tmp_path / "spool").glob("provenance-*.json"))) == 1


def test_provenance_can_be_switched_off(tmp_path, stub):
    got, _ = upload(tmp_path, stub, DD_PROFILING_ENABLE_CODE_PROVENANCE="false")
    assert got.event()["attachments"] == ["profile.pprof"]


def test_br_134_unix_socket(tmp_path, make_stub):
    made = make_stub(path=str(tmp_path / "a.sock"))
    done = run(tmp_path, WINDOW, DD_TRACE_AGENT_URL=f"unix://{tmp_path}/a.sock")
    assert (done.code, done.err) == (0, "")
    assert made.uploads[0].path == "/profiling/v1/input"


def test_br_134_the_receiver_moves_while_the_program_runs(tmp_path, make_stub):
    """To another file behind the same name, as an Agent that is restarted, and to another URL."""
    first = make_stub(path=str(tmp_path / "first.sock"))
    second = make_stub(path=str(tmp_path / "second.sock"))
    third = make_stub(path=str(tmp_path / "third.sock"))
    source = f"""
    assert window()
    os.replace("second.sock", "first.sock")
    assert window()
    profiler.stop(flush=False)
    profiler = Profiler(url="unix://{tmp_path}/third.sock")
    profiler.start()
    assert window()
    profiler.stop(flush=False)
    """
    done = run(tmp_path, source, PYROMETER_URL=f"unix://{tmp_path}/first.sock")
    assert (done.code, done.err) == (0, "")
    assert [len(one.uploads) for one in (first, second, third)] == [1, 1, 1]


def test_tls(tmp_path, make_stub):
    pem = tmp_path / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    pem.write_text((tmp_path / "key.pem").read_text() + (tmp_path / "cert.pem").read_text())
    made = make_stub(certificate=pem)
    done = run(
        tmp_path, WINDOW, PYROMETER_URL=made.url, PYROMETER_TLS_CA_FILE=str(tmp_path / "cert.pem")
    )
    assert (done.code, done.err) == (0, "")
    assert len(made.uploads) >= 1
    done = run(tmp_path, "window()", PYROMETER_URL=made.url, PYROMETER_API_TIMEOUT_MS="2000")
    assert len(done.lines) == 1 and "certificate" in done.err


def test_agent_host_and_port(tmp_path, stub):
    done = run(tmp_path, WINDOW, DD_AGENT_HOST="localhost", DD_TRACE_AGENT_PORT=str(stub.port))
    assert (done.code, done.err) == (0, "")
    assert stub.uploads


def test_a_bad_address_is_one_line(tmp_path, stub):
    done = run(
        tmp_path, "assert window()\nprint(profiler.status()['start_line'])",
        PYROMETER_URL=f"ftp://x,{stub.url}",
    )  # fmt: skip
    assert len(done.lines) == 1 and "ftp://x" in done.err
    assert stub.uploads and stub.url in done.out
    done = run(tmp_path, WINDOW, PYROMETER_URL=f"http://user:pass@127.0.0.1:{free_port()}")
    assert len(done.lines) == 1 and "pass" not in done.err.replace("password", "")
    assert list((tmp_path / "pyrometer-profiles").glob("*.pprof"))  # no other target is left


def test_several_targets_and_files(tmp_path, make_stub):
    first, second = make_stub(), make_stub()
    done = run(
        tmp_path, WINDOW, PYROMETER_URL=f"{first.url},{second.url}",
        PYROMETER_OUTPUT_PPROF="out/app",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert len(first.uploads) == len(second.uploads) >= 1
    pair = [one.uploads[0].part("profile.pprof") for one in (first, second)]
    assert pair[0] == pair[1]
    assert len(list((tmp_path / "out").glob("*.pprof"))) == len(first.uploads)


def test_no_target_no_libcurl(tmp_path):
    source = """
    assert window()
    print("libcurl" in open("/proc/self/maps").read())
    """
    done = run(tmp_path, source, PYROMETER_OUTPUT_PPROF="out/app")
    assert done.out == "False\n"


@pytest.mark.parametrize("opened", [True, False])
def test_without_libcurl_files_are_written(tmp_path, stub, opened):
    """An empty library of that name, as a wrong one, and none at all."""
    (tmp_path / "lib").mkdir()
    for name in "libcurl.so.4", "libcurl-gnutls.so.4":
        library = tmp_path / "lib" / name
        if opened:
            command = ["gcc", "-shared", "-nostdlib", "-o", str(library), "-x", "c", "/dev/null"]
            subprocess.run(command, check=True)
        else:
            library.write_text("no library")
    done = run(
        tmp_path, WINDOW, PYROMETER_URL=stub.url, LD_LIBRARY_PATH=str(tmp_path / "lib"),
        DD_SERVICE="web",
    )  # fmt: skip
    assert done.code == 0
    assert len(done.lines) == 1 and "libcurl4" in done.err and "pyrometer-profiles" in done.err
    files = list((tmp_path / "pyrometer-profiles").glob("*.pprof"))
    assert files and all(file.read_bytes()[:2] == b"\x1f\x8b" for file in files)
