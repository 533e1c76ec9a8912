"""Every answer adds up to what the profiles' samples say, read by an independent reader."""

import random
import sqlite3
import subprocess
from collections import defaultdict

import pytest
from conftest import NOW, SECOND, Server, make_profile, pprof, run


def upload_some(server, count=12, moments=True):
    """Profiles of three versions and two hosts over twenty minutes; with their labels."""
    sent = []
    for number in range(count):
        labels = {"version": f"1.{number % 3}", "host": f"h{number % 2}", "pid": number % 4}
        start = NOW - (1500 - 60 * number) * SECOND
        profile = make_profile(number, start, moments=moments)
        assert server.upload(profile, **labels).code == 200
        sent.append((labels, profile))
    return sent


def by_function(profiles, type_name):
    sums = defaultdict(lambda: [0, 0])
    for profile in profiles:
        for sample in profile.samples:
            places = [(name, file) for name, file, _ in sample.stack]
            for place in set(places):
                sums[place][0] += sample.values[type_name] if place == places[0] else 0
                sums[place][1] += sample.values[type_name]
    return {place: tuple(value) for place, value in sums.items() if any(value)}


@pytest.mark.parametrize("type_name", ["cpu-time", "wall-time", "exception-samples"])
@pytest.mark.parametrize("moments", [True, False])
def test_top_flame_and_series_agree_with_the_samples(server, type_name, moments):
    profiles = [profile for _, profile in upload_some(server, 8, moments)]
    whole = sum(profile.total(type_name) for profile in profiles)
    asked = {"service": "shop", "type": type_name}

    top = server.get("/api/top", limit=10000, **asked)
    assert top["total"] == whole
    rows = {(row["name"], row["file"]): (row["self"], row["total"]) for row in top["rows"]}
    assert rows == by_function(profiles, type_name)

    flame = server.get("/api/flame", nodes=100000, **asked)
    assert flame["total"] == whole and flame["cut"] == 0
    totals = [whole] + [node[4] for node in flame["nodes"]]
    below = [0] * len(totals)
    for parent, _, _, _, total in flame["nodes"]:
        below[parent] += total
    for number, (_, _, _, own, total) in enumerate(flame["nodes"], start=1):
        assert total == own + below[number]
    own = defaultdict(int)
    for _, name, file, value, _ in flame["nodes"]:
        own[name, file] += value
    assert {k: v for k, v in own.items() if v} == {k: v[0] for k, v in rows.items() if v[0]}

    cut = server.get("/api/flame", nodes=20, **asked)
    assert cut["total"] == whole and len(cut["nodes"]) < 20

    edges = defaultdict(int)
    for profile in profiles:
        for sample in profile.samples:
            places = [(name, file) for name, file, _ in sample.stack]
            for callee, caller in set(zip(places, places[1:])):
                edges[caller, callee] += sample.values[type_name]
    graph = server.get("/api/graph", limit=100000, **asked)["edges"]
    assert {((a, b), (c, d)): value for a, b, c, d, value in graph} == {
        edge: value for edge, value in edges.items() if value
    }

    series = server.get("/api/series", step="1m", **asked)
    assert sum(line["sum"] for line in series["lines"]) == whole
    assert sum(map(sum, (line["values"] for line in series["lines"]))) == whole


def test_totals_by_label_and_filters(server):
    sent = upload_some(server)

    def expect(keep_profile=lambda labels: True, keep_sample=lambda sample: True):
        return sum(
            sample.values["wall-time"]
            for labels, profile in sent
            if keep_profile(labels)
            for sample in profile.samples
            if keep_sample(sample)
        )

    def whole(**arguments):
        answer = server.ask("GET", "/api/top", type="wall-time", service="shop", **arguments)
        return answer.json["total"] if answer.code == 200 else 0

    assert whole() == expect()
    assert whole(version="1.1") == expect(lambda labels: labels["version"] == "1.1")
    assert whole(where="version!=1.1") == expect(lambda labels: labels["version"] != "1.1")
    assert whole(where="version=~1.[02]") == expect(lambda labels: labels["version"] != "1.1")
    assert whole(where="thread name=worker-1") == expect(
        keep_sample=lambda sample: sample.labels["thread name"] == "worker-1"
    )
    assert whole(where=["thread name!~worker-[01]", "state=io", "host=h1"]) == expect(
        lambda labels: labels["host"] == "h1",
        lambda sample: (
            sample.labels["thread name"] == "worker-2" and sample.labels["state"] == "io"
        ),
    )
    assert whole(where="exception type=ValueError") == expect(
        keep_sample=lambda sample: sample.labels.get("exception type") == "ValueError"
    )
    assert whole(where="exception type=") == expect(
        keep_sample=lambda sample: "exception type" not in sample.labels
    )
    for function in "function_3", "function_17":
        assert whole(where=f"function={function}") == expect(
            keep_sample=lambda sample, f=function: f in [name for name, _, _ in sample.stack]
        )
        assert whole(where=f"function!={function}") == expect(
            keep_sample=lambda sample, f=function: f not in [name for name, _, _ in sample.stack]
        )
    assert whole(where="package=flask") == expect(
        keep_sample=lambda sample: any("flask" in file for _, file, _ in sample.stack)
    )
    assert whole(query='{version="1.2","thread name"=~"worker-.",state!="io"}') == expect(
        lambda labels: labels["version"] == "1.2", lambda sample: sample.labels["state"] != "io"
    )
    for by, of in ("version", 0), ("thread name", 1), ("exception type", 1):
        lines = server.get("/api/totals", type="wall-time", by=by, limit=1000)["lines"]
        expected = defaultdict(int)
        for labels, profile in sent:
            for sample in profile.samples:
                expected[(sample.labels if of else labels).get(by, "")] += sample.values[
                    "wall-time"
                ]
        assert {line["name"]: line["sum"] for line in lines if line["sum"]} == dict(expected)


def test_time_range_counts_profiles_by_their_start(server):
    sent = upload_some(server)
    starts = sorted(profile.time_ns for _, profile in sent)
    middle = starts[5]
    early = server.get("/api/top", type="cpu-time", **{"from": starts[0], "until": middle})
    late = server.get("/api/top", type="cpu-time", **{"from": middle, "until": starts[-1] + 1})
    expected = sum(profile.total("cpu-time") for _, profile in sent if profile.time_ns < middle)
    assert early["total"] == expected
    assert early["total"] + late["total"] == sum(p.total("cpu-time") for _, p in sent)


def test_pprof_download_has_the_same_sums_for_go_too(server, tmp_path):
    profiles = [profile for _, profile in upload_some(server, 6)]
    answer = server.ask("GET", "/api/pprof", service="shop")
    assert answer.code == 200
    merged = pprof.parse(answer.body)
    for type_name, _ in merged.types:
        assert merged.total(type_name) == sum(profile.total(type_name) for profile in profiles)
    assert {tuple(sample.stack) for sample in merged.samples} == {
        tuple(sample.stack) for profile in profiles for sample in profile.samples
    }
    file = tmp_path / "merged.pprof"
    file.write_bytes(answer.body)
    command = ["go", "tool", "pprof", "-top", "-nodecount=1000", "-nodefraction=0", "-flat"]
    done = subprocess.run(
        [*command, "-unit=ns", "-sample_index=cpu-time", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    go = {}
    for line in done.stdout.splitlines():
        parts = line.split()
        if len(parts) >= 6 and parts[0].endswith(("ns", "0")) and parts[5].startswith("function_"):
            go[parts[5]] = tuple(int(float(parts[at].removesuffix("ns"))) for at in (0, 3))
    ours = defaultdict(lambda: [0, 0])
    for profile in profiles:
        for sample in profile.samples:
            names = [name for name, _, _ in sample.stack]
            for name in set(names):
                ours[name][0] += sample.values["cpu-time"] if name == names[0] else 0
                ours[name][1] += sample.values["cpu-time"]
    top = server.get("/api/top", type="cpu-time", limit=10000)
    assert sum(row["self"] for row in top["rows"]) == sum(value[0] for value in ours.values())
    assert len(go) > 10
    for name, (flat, total) in go.items():
        assert (flat, total) == tuple(ours[name]), name


def test_difference_finds_what_changed_and_no_more(server):
    def profile(seed, cost):
        draw = random.Random(seed)
        made = pprof.Profile(
            [("cpu-time", "nanoseconds"), ("cpu-samples", "count")],
            time_ns=NOW - 600 * SECOND + seed * SECOND,
            duration_ns=60 * SECOND,
        )
        for _ in range(400):
            name = f"steady_{draw.randrange(5)}"
            value = draw.randrange(5, 15) * 10**6
            made.samples.append(
                pprof.Sample(
                    [(name, "a.py", 1), ("main", "a.py", 9)], {"cpu-time": value, "cpu-samples": 1}
                )
            )
        for _ in range(cost):
            made.samples.append(
                pprof.Sample(
                    [("slower", "a.py", 2), ("main", "a.py", 9)],
                    {"cpu-time": 10**7, "cpu-samples": 1},
                )
            )
        return made

    for seed in range(6):
        version = "old" if seed < 3 else "new"
        sent = profile(seed, 30 if version == "old" else 120)
        assert server.upload(sent, version=version).code == 200
    asked = {"version": "new", "before_version": "old", "type": "cpu-time"}
    answer = server.get("/api/diff", **asked)
    rows = {row["name"]: row for row in answer["rows"]}
    slower = rows["slower"]["total"]
    assert slower["is_significant"]
    assert slower["before"] == pytest.approx(30 * 10**7 / 60)
    assert slower["after"] == pytest.approx(120 * 10**7 / 60)
    assert 0 < slower["margin"] < slower["change"]
    steady = [row for name, row in rows.items() if name.startswith("steady")]
    assert len(steady) == 5 and not any(row["total"]["is_significant"] for row in steady)
    worse = server.get("/api/diff", only="worse", **asked)
    assert {row["name"] for row in worse["rows"]} == {"slower", "main"}


def test_sums_of_hours_and_days_change_no_answer(tmp_path):
    """A store compacted, and one as it came, answer alike; late profiles count once."""
    hour = 3600 * SECOND
    day = (NOW // (24 * hour) - 3) * 24 * hour
    server = Server(tmp_path / "store")
    sent = []

    def add(number, start):
        profile = make_profile(number, start)
        assert server.upload(profile, version=f"1.{number % 2}", pid=number % 3).code == 200
        sent.append(profile)

    for number in range(96):  # two of each process in an hour, of every fifth hour
        add(number, day + number // 12 * 5 * hour + number % 12 * 240 * SECOND)
    questions = [
        ("/api/top", {"limit": 10000}),
        ("/api/top", {"limit": 10000, "where": "thread name=worker-1", "version": "1.1"}),
        ("/api/flame", {"nodes": 100000}),
        ("/api/series", {"step": "1h", "by": "version"}),
        ("/api/series", {"step": "1d", "by": "pid"}),
        ("/api/series", {"step": "10m"}),
    ]
    ranges = [
        (day, day + 48 * hour),
        (day + hour // 2, day + 26 * hour),
        (day + hour // 4, day + 3 * hour // 4),
    ]

    def answers():
        found = []
        for path, arguments in questions:
            for start, end in ranges:
                asked = {**arguments, "from": start, "until": end, "type": "wall-time"}
                answer = server.get(path, **asked)
                rows = answer.get("rows") or answer.get("nodes") or answer.get("lines")
                seconds = round(answer.get("seconds", 0), 3)
                found.append(((answer.get("total"), seconds), sorted(map(str, rows))))
        return found

    before = answers()
    server.stop()
    assert run("store", "compact", "--data", tmp_path / "store").returncode == 0
    assert run("store", "check", "--data", tmp_path / "store").stdout == "96 profiles, all good\n"
    with sqlite3.connect(tmp_path / "store" / "pyrometer.db") as database:
        query = "SELECT level, count(*) FROM profile GROUP BY level"
        assert list(database.execute(query)) == [(0, 96), (1, 48), (2, 12)]
    database.close()
    server = Server(tmp_path / "store")

    def without_order(found):
        """Node numbers and the last digits of intervals depend on the order of adding up."""
        return [total for total, _ in found]

    assert without_order(answers()) == without_order(before)
    add(99, day + 100 * SECOND)
    kept = sent
    for first in 0, 1:
        whole = server.get("/api/top", type="wall-time", **{"from": day, "until": NOW})
        assert whole["total"] == sum(profile.total("wall-time") for profile in kept)
        assert whole["seconds"] == 60 * len(kept)
        assert server.stop() == (0, "")
        if first == 0:  # what goes takes its sums along, and leaves the others
            gone = {"from": day + 10 * hour, "until": day + 10 * hour + 240 * SECOND}
            iso = {name: str(time_ns // SECOND) for name, time_ns in gone.items()}
            command = ["store", "delete", "--data", tmp_path / "store", "--where", "service=shop"]
            command += ["--from", iso["from"], "--until", iso["until"]]
            assert run(*command).returncode == 0
            kept = [p for p in sent if not gone["from"] <= p.time_ns < gone["until"]]
            assert len(kept) == len(sent) - 1
            assert run("store", "compact", "--data", tmp_path / "store").returncode == 0
        server = Server(tmp_path / "store")
    assert server.stop() == (0, "")


def as_sent(profile):
    """What a profile means, apart from the order of its samples and what the store leaves out."""
    return sorted(
        (
            tuple(sample.stack),
            tuple(sorted(sample.values.items())),
            tuple(sorted((k, v) for k, v in sample.labels.items() if v != 0)),
        )
        for sample in profile.samples
    )


@pytest.mark.parametrize("moments", [True, False])
def test_one_profile_comes_back_as_it_was_sent(server, moments):
    profile = make_profile(7, moments=moments)
    profile.samples[3].labels["span id"] = (1 << 63) - 25
    profile.label_units["size"] = "bytes"
    profile.samples[4].labels["size"] = -12
    assert server.upload(make_profile(8)).code == 200  # another in the same book
    assert server.upload(profile, pid=2).code == 200
    (row,) = server.get("/api/profiles", where="pid=2")["profiles"]
    answer = server.ask("GET", "/api/pprof", profile=row["profile"])
    back = pprof.parse(answer.body)
    assert back.types == profile.types
    assert (back.time_ns, back.duration_ns) == (profile.time_ns, profile.duration_ns)
    if moments:
        assert as_sent(back) == as_sent(profile)
        assert back.label_units["size"] == "bytes"
    for type_name, _ in profile.types:
        assert back.total(type_name) == profile.total(type_name)
    assert server.ask("GET", "/api/pprof", profile=99).code == 404


def test_timeline_has_every_sample_in_its_lane(server):
    profile = make_profile(11)
    assert server.upload(profile).code == 200
    (row,) = server.get("/api/profiles")["profiles"]
    answer = server.get("/api/timeline", profile=row["profile"])
    found = []
    for lane in answer["lanes"]:
        starts = [span[0] for span in lane["spans"]]
        assert starts == sorted(starts)
        for start, length, name, state in lane["spans"]:
            end = int(answer["start_ns"]) + start + length
            names = answer["names"][name], answer["states"][state]
            found.append((lane["name"], lane["id"], end, length, *names))
    expected = [
        (
            sample.labels["thread name"],
            sample.labels["thread native id"],
            sample.labels["end_timestamp_ns"],
            sample.values["wall-time"],
            sample.stack[0][0] if sample.stack else "",
            sample.labels["state"],
        )
        for sample in profile.samples
        if sample.values["wall-time"]
    ]
    assert sorted(found) == sorted(expected)
    assert server.upload(make_profile(12, moments=False), pid=2).code == 200
    (row,) = server.get("/api/profiles", where="pid=2")["profiles"]
    assert server.ask("GET", "/api/timeline", profile=row["profile"]).code == 404


def test_wait_pairs(server):
    types = [
        (f"{kind}-{what}", "nanoseconds")
        for kind, what in [
            ("lock-acquire", "wait"),
            ("lock-hold", "blocking"),
            ("gil", "wait"),
            ("gil-hold", "blocking"),
        ]
    ]
    names = [name for name, _ in types]

    def sample(function, pair, **values):
        values = {name: values.get(name.replace("-", "_"), 0) for name in names}
        labels = {"pair id": pair, "thread name": function}
        return pprof.Sample([(function, "a.py", 1), ("main", "a.py", 2)], values, labels)

    for window in range(3):
        made = pprof.Profile(types, time_ns=NOW - (300 + window) * SECOND, duration_ns=SECOND)
        made.samples = [
            sample("waiter", 1, lock_acquire_wait=100),
            sample("holder", 1, lock_hold_blocking=100),
            sample("waiter", 2, lock_acquire_wait=7),
            sample("other", 2, lock_hold_blocking=7),
            sample("hungry", 3, gil_wait=50),
            sample("holder", 3, gil_hold_blocking=50),
            sample("alone", 4, gil_wait=1000),
        ]
        assert server.upload(made).code == 200
    pairs = server.get("/api/pairs")["pairs"]
    found = [(p["kind"], p["waiter"], p["holder"], p["wait"], p["count"]) for p in pairs]
    assert found == [
        ("lock", "waiter", "holder", 300, 3),
        ("gil", "hungry", "holder", 150, 3),
        ("lock", "waiter", "other", 21, 3),
    ]
