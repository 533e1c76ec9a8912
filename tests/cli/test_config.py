"""pyrometer config and doctor: what they say of settings and of what is wrong here."""

import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from conftest import call, good, wrong

SECRET = "hunter2"


def settings(**environment):
    shown = json.loads(good("config", "--json", environment=environment))
    return {row["name"]: row for row in shown["settings"]}, shown["problems"]


def without_datadog(environment):
    """What the tests themselves run under must not speak."""
    return {**{name: "" for name in os.environ if name.startswith(("DD_", "OTEL_"))}, **environment}


def doctor(*arguments, **environment):
    environment.setdefault("PYROMETER_OUTPUT_PPROF", "/tmp/")
    done = call("doctor", "--json", *arguments, environment=without_datadog(environment))
    assert done.stderr == ""
    shown = json.loads(done.stdout)
    assert done.returncode == (1 if shown["problems"] else 0)
    assert shown["problems"] == sum(row["verdict"] == "problem" for row in shown["checks"])
    return shown["checks"]


def problems(checks):
    return [row["text"] for row in checks if row["verdict"] == "problem"]


def test_value_source_and_meaning():
    rows, wrong_ones = settings(
        DD_PROFILING_MAX_FRAMES="100", PYROMETER_ENV="test", DD_ENV="other", DD_API_KEY=SECRET
    )
    assert wrong_ones == []
    assert (rows["MAX_FRAMES"]["value"], rows["MAX_FRAMES"]["from"]) == (
        "100",
        "DD_PROFILING_MAX_FRAMES",
    )
    assert (rows["ENV"]["value"], rows["ENV"]["from"]) == ("test", "PYROMETER_ENV")
    assert (rows["SITE"]["value"], rows["SITE"]["from"]) == ("datadoghq.com", "default")
    assert rows["API_KEY"]["value"] == "***"
    assert all(row["meaning"] for row in rows.values())
    assert rows["STACK_ENABLED"]["no_effect"] is None


def test_text():
    short = good("config", environment={"PYROMETER_SAMPLING_INTERVAL": "5ms"})
    assert "SAMPLING_INTERVAL            5ms  (PYROMETER_SAMPLING_INTERVAL)\n" in short
    assert "Mean time between" not in short
    long = good("config", "--explain")
    assert "Mean time between two looks" in long
    assert "Default 10ms, from 1ms to 1s. PYROMETER_SAMPLING_INTERVAL, DD_PROFILING_SAMP" in long


@pytest.mark.parametrize("options", [[], ["--explain"], ["--json"]])
def test_secrets_are_masked(options):
    done = call(
        "config",
        *options,
        environment={
            "DD_API_KEY": SECRET,
            "PYROMETER_HTTP_HEADERS": f"authorization:{SECRET}",
            "PYROMETER_URL": f"http://me:{SECRET}@host:1",
            "HTTPS_PROXY": f"http://me:{SECRET}@proxy:3128",
            "DD_AGENT_HOST": f"me:{SECRET}@agent",
        },
    )
    assert done.returncode == 0
    assert SECRET not in done.stdout + done.stderr
    assert "***@host:1" in done.stdout and "***@agent" in done.stdout


def test_control_characters_reach_no_terminal():
    assert "\x1b" not in good("config", environment={"PYROMETER_SERVICE": "a\x1b[31mb"})


def test_what_is_wrong_is_a_line():
    environment = {"PYROMETER_MAX_FRAMES": "many", "PYROMETER_MAX_FRAME": "3"}
    done = call("config", environment=environment)
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 2
    assert "did you mean PYROMETER_MAX_FRAMES?" in done.stderr
    assert len(settings(**environment)[1]) == 2


def test_a_file_is_weaker_than_the_environment(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(
        'service = "file"\nenv = "file"\nstack_enabled = true\n'
        'url = ["http://a:1", "http://b:2"]\n[tags]\nteam = "web"\n'
    )
    rows, wrong_ones = settings(PYROMETER_CONFIG_FILE=str(file), DD_ENV="environment")
    assert wrong_ones == []
    assert (rows["SERVICE"]["value"], rows["SERVICE"]["from"]) == ("file", "config file")
    assert rows["ENV"]["value"] == "environment"
    assert rows["URL"]["value"] == "http://a:1,http://b:2"
    assert rows["TAGS"]["value"] == "team:web"


@pytest.mark.parametrize(
    "content, expected",
    [
        (None, "cannot be read: No such file"),
        ("a = = b", "it is no TOML"),
        (b"a = '\xff'", "it is no TOML"),
        (b"#" * (1 << 15) + b"\n", "larger than 32 KiB"),
        ('max_frames = "x"', 'config file: "x" is ignored'),
        ("max_frame = 1", "did you mean MAX_FRAMES?"),
    ],
    ids=["missing", "syntax", "encoding", "size", "value", "name"],
)
def test_a_wrong_file_is_one_line(tmp_path, content, expected):
    file = tmp_path / "settings.toml"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    rows, wrong_ones = settings(PYROMETER_CONFIG_FILE=str(file))
    assert len(wrong_ones) == 1 and expected in wrong_ones[0]
    assert rows["MAX_FRAMES"]["from"] == "default"


def test_a_file_of_odd_and_large_texts(tmp_path):
    """All of it has to reach the program, in one variable."""
    file = tmp_path / "settings.toml"
    odd = '\u00e9\u20ac\U0001f600\\"\n' * 300 + "end"
    file.write_text(
        f"service = {json.dumps(odd, ensure_ascii=False)}\nenv = 'é'\n" + '# "\n' * 6000
    )
    rows, wrong_ones = settings(PYROMETER_CONFIG_FILE=str(file), LC_ALL="C")
    assert wrong_ones == []
    assert rows["SERVICE"]["value"] == odd
    assert rows["ENV"]["value"] == "é"


def test_what_has_no_effect_is_no_problem():
    checks = doctor(DD_PROFILING_ENABLE_ASSERTS="1", DD_PROFILING_STACK_UVLOOP="1")
    assert problems(checks) == []
    assert sum("has no effect" in row["text"] for row in checks) == 2


def test_wrong_use():
    assert "config" in wrong("config", "word")
    assert '"word" is no process id' in wrong("doctor", "word")
    assert "No such file" in wrong("doctor", "2147483647")


def test_nothing_is_wrong(tmp_path):
    assert problems(doctor(PYROMETER_OUTPUT_PPROF=f"{tmp_path}/new/app")) == []
    assert not (tmp_path / "new").exists(), "it only looks"


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({"PYROMETER_ENABLED": "false"}, "switched off by PYROMETER_ENABLED"),
        ({"DD_PROFILING_ENABLED": "0"}, "switched off by DD_PROFILING_ENABLED"),
        ({"DD_PROFILING_STACK_ENABLED": "no"}, "DD_PROFILING_STACK_ENABLED switches off the stack"),
        ({"DD_PROFILING_CAPTURE_PCT": "0"}, "leaves out 100 %"),
        ({"PYROMETER_MAX_FRAMES": "x"}, 'PYROMETER_MAX_FRAMES: "x" is ignored'),
        ({"PYROMETER_URL": "ftp://host"}, '"ftp://host" is no address'),
        ({"PYROMETER_URL": "http://127.0.0.1:9"}, "http://127.0.0.1:9 does not answer"),
        ({"PYROMETER_URL": "unix:///nowhere"}, "unix:///nowhere does not answer"),
        ({"PYROMETER_URL": f"http://me:{SECRET}@host"}, "has a user or password"),
        ({"PYROMETER_URL": f"me:{SECRET}@host:8126"}, "has a user or password"),
        ({"DD_AGENT_HOST": f"me:{SECRET}@host"}, "has a user or password"),
        ({"PYROMETER_AGENTLESS": "1"}, "AGENTLESS needs a key"),
        ({"PYROMETER_OUTPUT_PPROF": "/etc/hostname/app"}, "/etc/hostname is no folder"),
        ({"PYROMETER_CONFIG_FILE": "/nowhere"}, "/nowhere is ignored, it cannot be read"),
    ],
)
def test_one_problem(environment, expected):
    found = problems(doctor(**environment))
    assert len(found) == 1 and expected in found[0]
    assert SECRET not in found[0]


def test_the_folder_of_recordings(tmp_path):
    (tmp_path / "file").touch()
    bad = {"PYROMETER_FLIGHT_RECORDER_DIR": f"{tmp_path}/file/flight"}
    assert problems(doctor(**bad)) == [], "it is off"
    on = {"PYROMETER_FLIGHT_RECORDER_ENABLED": "true"}
    (found,) = problems(doctor(**on, **bad))
    assert found.startswith("the folder of recordings") and f"{tmp_path}/file is no folder" in found
    good = {"PYROMETER_FLIGHT_RECORDER_DIR": f"{tmp_path}/flight"}
    checks = doctor(**on, **good)
    assert problems(checks) == [] and not (tmp_path / "flight").exists()
    said = f"the folder of recordings {tmp_path}/flight can be written"
    assert said in [row["text"] for row in checks]


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404)
        self.end_headers()

    def log_message(self, *arguments):
        pass


def test_a_receiver_that_answers():
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        checks = doctor(PYROMETER_URL=url)
        server.shutdown()
    assert problems(checks) == []
    assert f"{url} answers" in [row["text"] for row in checks]


def test_a_receiver_that_hangs():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        found = problems(doctor(PYROMETER_URL=url))
    assert len(found) == 1 and f"{url} does not answer" in found[0]


@pytest.mark.parametrize(
    "source, expected",
    [
        ("pass", "never started"),
        ("import pyrometer.auto", None),
        (
            "from pyrometer import Profiler; p = Profiler(); p.start(); p.stop()",
            "is loaded and does not run",
        ),
    ],
)
def test_of_a_process(tmp_path, source, expected):
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith("PYROMETER_")},
        "PYROMETER_CONFIG_FILE": "settings.toml",
        "PYROMETER_OUTPUT_PPROF": "profiles/",  # from its folder, not from here
    }
    (tmp_path / "settings.toml").write_text("max_frames = 0\n")
    with subprocess.Popen(
        [sys.executable, "-c", source + "\nprint('ready', flush=True)\ninput()"],
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        found = problems(doctor(str(process.pid)))
        process.communicate("\n")
    assert any("MAX_FRAMES stays 64" in text for text in found), "its file is read, from its folder"
    about_it = [text for text in found if "MAX_FRAMES" not in text]
    assert len(about_it) == (expected is not None)
    assert expected is None or expected in about_it[0]
