"""What Grafana's data source for Pyroscope asks, by the client that it uses, and by hand."""

import gzip
import json
import subprocess
from collections import defaultdict
from pathlib import Path

import go_program
import pytest
from conftest import NOW, SECOND, make_profile, pprof

SOURCES = Path(__file__).parent / "grafana_client"
SERVICE = "/querier.v1.QuerierService"
TYPE = "cpu-time:cpu-time:nanoseconds:cpu-time:nanoseconds"
PROTO = {"Content-Type": "application/proto"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Pyroscope's own client."""
    return go_program.build(SOURCES, tmp_path_factory.mktemp("go"))


def upload(server):
    """Profiles by their versions."""
    sent = defaultdict(list)
    for seed in range(4):
        version = f"1.{seed % 2}"
        profile = make_profile(seed, NOW - (600 - seed) * SECOND)
        assert server.upload(profile, version=version).code == 200
        sent[version].append(profile)
    return sent


@pytest.mark.timeout(900)  # the first build
@pytest.mark.parametrize("encoding", ["binary", "json"])
def test_the_data_source(server, client, encoding):
    sent = upload(server)
    sums = {
        version: sum(profile.total("cpu-time") for profile in profiles)
        for version, profiles in sent.items()
    }
    times = [str(at // 10**6) for at in (NOW - 3600 * SECOND, NOW)]
    command = [client, server.url, encoding, TYPE, '{service_name="shop"}', *times]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert TYPE in answer["types"]
    assert {"service", "version", "thread name"} <= set(answer["names"])
    assert sorted(answer["versions"]) == ["1.0", "1.1"]
    assert sorted(answer["series"], key=str) == [
        {"service_name": "shop", "version": version} for version in ("1.0", "1.1")
    ]
    assert answer["sums"] == sums
    graph = answer["graph"]
    assert graph["total"] == sum(sums.values())
    root, *levels = graph["levels"]
    assert root[:2] == [0, graph["total"]] and graph["names"][root[3]] == "total"
    selfs = [level[at + 2] for level in (root, *levels) for at in range(0, len(level), 4)]
    assert sum(selfs) == graph["total"] and max(selfs) == graph["maxSelf"]
    assert {graph["names"][name] for name in levels[0][3::4]} <= {
        sample.stack[-1][0]
        for profiles in sent.values()
        for profile in profiles
        for sample in profile.samples
        if sample.stack
    }
    assert answer["error"] == "invalid_argument"
    assert "the pattern of version" in answer["why"]


def test_questions_that_are_none(server):
    upload(server)
    path = f"{SERVICE}/ProfileTypes"
    empty = server.ask("POST", path, b"", PROTO)
    assert empty.code == 200 and empty.headers["Content-Type"] == "application/proto"
    assert TYPE.encode() in empty.body
    packed = {**PROTO, "Content-Encoding": "gzip"}
    assert server.ask("POST", path, gzip.compress(b""), packed).body == empty.body
    for body, headers, code, word in [
        (b"\x0a\x7f", PROTO, 400, "invalid_argument"),  # cut off
        (b"\x08" + b"\xff" * 12, PROTO, 400, "invalid_argument"),
        (b"[]", {"Content-Type": "application/json"}, 400, "invalid_argument"),
        (b"\x1a\x00" * 50000, PROTO, 413, "resource_exhausted"),
        (b"", {"Content-Type": "application/connect+proto"}, 415, "internal"),
    ]:
        answer = server.ask("POST", path, body, headers)
        assert (answer.code, answer.json["code"]) == (code, word), body[:20]
        assert answer.json["message"]
    tree = json.dumps({"profileTypeID": TYPE, "format": "PROFILE_FORMAT_TREE"}).encode()
    answer = server.ask("POST", f"{SERVICE}/SelectMergeStacktraces", tree)
    assert (answer.code, answer.json["code"]) == (501, "unimplemented")


def test_render_is_the_same_graph(server):
    upload(server)
    question = json.dumps({"profileTypeID": TYPE, "start": 1}).encode()
    graph = server.ask("POST", f"{SERVICE}/SelectMergeStacktraces", question).json["flamegraph"]
    old = server.get("/pyroscope/render", query=f"{TYPE}{{}}")["flamebearer"]
    assert old["numTicks"] == int(graph["total"]) and old["names"] == graph["names"]
    assert old["levels"] == [list(map(int, level["values"])) for level in graph["levels"]]


def test_nothing_in_a_time_is_no_error(server):
    profile = pprof.Profile([("cpu-time", "nanoseconds")], time_ns=NOW, duration_ns=SECOND)
    profile.samples.append(pprof.Sample([("f", "a.py", 1)], {"cpu-time": 5}))
    assert server.upload(profile).code == 200
    question = json.dumps({"profileTypeID": TYPE, "start": "1000", "end": "2000"}).encode()
    assert server.ask("POST", f"{SERVICE}/SelectMergeStacktraces", question).code == 200
    assert server.ask("POST", f"{SERVICE}/SelectSeries", question).json == {"series": []}
