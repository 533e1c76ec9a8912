"""What single views promise beside true totals: splits, filters on every kind of name, lanes of
tasks, what got worse since yesterday, figures for Prometheus, and copies as backups."""

import random
import re
import shutil
import sqlite3
from collections import defaultdict

import pytest
from conftest import NOW, SECOND, Server, make_profile, pprof, run, send_datadog

DAY = 86400 * SECOND


def labelled_profile(seed, start_ns=NOW - 600 * SECOND):
    """A window whose samples have the names that filters look at."""
    draw = random.Random(seed)
    profile = make_profile(seed, start_ns)
    for sample in profile.samples:
        sample.labels["task name"] = draw.choice(["poll", "serve"])
        sample.labels["lock name"] = draw.choice(["a.py:3:lock", "b.py:7:queue"])
        sample.labels["trace endpoint"] = draw.choice(["GET /a", "GET /b", "POST /a"])
    return profile


@pytest.mark.parametrize(
    ("where", "keeps"),
    [
        ("task name=poll", lambda s: s.labels["task name"] == "poll"),
        ("lock name!=a.py:3:lock", lambda s: s.labels["lock name"] != "a.py:3:lock"),
        ("trace endpoint=~GET .*", lambda s: s.labels["trace endpoint"].startswith("GET ")),
        ("state=io", lambda s: s.labels["state"] == "io"),
        ("file=/app/a.py", lambda s: any(file == "/app/a.py" for _, file, _ in s.stack)),
        ("package!=flask", lambda s: not any("/flask/" in file for _, file, _ in s.stack)),
    ],
)
def test_a_filter_keeps_what_it_says(server, where, keeps):
    profiles = [labelled_profile(seed) for seed in range(3)]
    for number, profile in enumerate(profiles):
        assert server.upload(profile, pid=number).code == 200
    expected = sum(
        sample.values["wall-time"]
        for profile in profiles
        for sample in profile.samples
        if keeps(sample)
    )
    assert 0 < expected < sum(profile.total("wall-time") for profile in profiles)
    for path in "/api/top", "/api/flame":
        assert server.get(path, type="wall-time", where=where)["total"] == expected
    lines = server.get("/api/series", type="wall-time", where=where)["lines"]
    assert sum(line["sum"] for line in lines) == expected
    merged = pprof.parse(server.ask("GET", "/api/pprof", where=where).body)
    assert merged.total("wall-time") == expected


def test_splits_over_time(server):
    """By a label of series, of samples, and by function: the lines are the whole."""
    profiles = [labelled_profile(seed, NOW - (900 - 100 * seed) * SECOND) for seed in range(4)]
    expected = {by: defaultdict(int) for by in ("host", "trace endpoint", "function")}
    for number, profile in enumerate(profiles):
        assert server.upload(profile, host=f"h{number % 2}").code == 200
        for sample in profile.samples:
            value = sample.values["wall-time"]
            expected["host"][f"h{number % 2}"] += value
            expected["trace endpoint"][sample.labels["trace endpoint"]] += value
            expected["function"][sample.stack[0][0] if sample.stack else "<no stack>"] += value
    for by, sums in expected.items():
        answer = server.get("/api/series", type="wall-time", by=by, step="1m", limit=1000)
        assert {line["name"]: line["sum"] for line in answer["lines"]} == dict(sums), by
        for line in answer["lines"]:
            assert len(line["values"]) == answer["steps"] and sum(line["values"]) == line["sum"]


def test_exceptions_by_type_and_by_place(server):
    profiles = [make_profile(seed) for seed in range(8)]
    by_type, by_place = defaultdict(int), defaultdict(int)
    for number, profile in enumerate(profiles):
        assert server.upload(profile, pid=number).code == 200
        for sample in profile.samples:
            if sample.values["exception-samples"]:
                by_type[sample.labels["exception type"]] += 1
                if sample.stack and sample.labels["exception type"] == "KeyError":
                    by_place[sample.stack[0][:2]] += 1
    asked = {"type": "exception-samples", "limit": 1000}
    lines = server.get("/api/totals", by="exception type", **asked)["lines"]
    assert {line["name"]: line["sum"] for line in lines if line["sum"]} == dict(by_type)
    rows = server.get("/api/top", where="exception type=KeyError", **asked)["rows"]
    assert {(r["name"], r["file"]): r["self"] for r in rows if r["self"]} == dict(by_place)


def test_a_timeline_in_lanes_of_tasks(server):
    profile = labelled_profile(5)
    assert server.upload(profile).code == 200
    (row,) = server.get("/api/profiles")["profiles"]
    answer = server.get("/api/timeline", profile=row["profile"], by="task name")
    expected = defaultdict(int)
    for sample in profile.samples:
        expected[sample.labels["task name"]] += sample.values["wall-time"]
    found = defaultdict(int)
    for lane in answer["lanes"]:
        starts = [span[0] for span in lane["spans"]]
        assert starts == sorted(starts)
        found[lane["name"]] += sum(span[1] for span in lane["spans"])
    assert found == expected


def test_today_against_yesterday(server):
    """What got worse between two times, the worst first, and nothing that noise explains."""
    costs = {"much_worse": (50, 250), "worse": (50, 130), "better": (200, 60)}
    costs["as_before"] = (90, 90)
    for at, start in enumerate((NOW - DAY - 600 * SECOND, NOW - 600 * SECOND)):
        draw = random.Random(at)
        made = pprof.Profile(
            [("cpu-time", "nanoseconds"), ("cpu-samples", "count")],
            time_ns=start,
            duration_ns=60 * SECOND,
        )
        for name, count in costs.items():
            for _ in range(count[at] + draw.randrange(3)):
                values = {"cpu-time": 10**7, "cpu-samples": 1}
                made.samples.append(pprof.Sample([(name, "a.py", 1)], values))
        assert server.upload(made).code == 200
    yesterday = {"before_from": "now-25h", "before_until": "now-23h"}
    answer = server.get("/api/diff", type="cpu-time", only="worse", **yesterday)
    assert [row["name"] for row in answer["rows"]] == ["much_worse", "worse"]
    for row in answer["rows"]:
        change = row["total"]
        assert change["is_significant"] and 0 < change["margin"] < change["change"]
    every = server.get("/api/diff", type="cpu-time", **yesterday)
    judged = {row["name"]: row["total"]["is_significant"] for row in every["rows"]}
    assert judged == {"much_worse": True, "worse": True, "better": True, "as_before": False}


def test_figures_for_prometheus(server):
    """Every line of /metrics is one of its text format, and each series says when it last spoke."""
    profile = make_profile(1)
    assert server.upload(profile, service='a "b" \\ c', version="2", pid=7).code == 200
    assert server.ask("POST", "/api/upload", b"junk", service="a").code == 400
    document = {
        "window": {"start_ns": 0, "end_ns": 10 * SECOND},
        "cost": {"own_threads_cpu_ns": 25 * 10**7},
        "losses": {"torn-stack": 2, "window-full": 3, 'no "kind"': 1},
        "memory": {"profiler_bytes": 1000},
    }
    for number in 2, 3, 3:  # the last again
        sent = send_datadog(server, make_profile(number), document=document)
        assert sent.code == 200
    server.get("/api/flame", service='a "b" \\ c')
    answer = server.ask("GET", "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    label = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
    line_form = re.compile(rf"([a-z_]+)(?:\{{{label}(?:,{label})*\}})? ([-+0-9.e]+)")
    values, kinds = {}, {}
    for line in answer.body.decode().splitlines():
        if line.startswith("# TYPE "):
            kinds[line.split()[2]] = line.split()[3]
        elif not line.startswith("# HELP "):
            found = line_form.fullmatch(line)
            assert found, line
            is_counter = kinds[found[1]] == "counter"
            assert found[1].endswith("_total") == is_counter
            values[line.rpartition(" ")[0]] = float(found[2])
    assert values["pyrometer_profiles_accepted_total"] == 3
    shop = {
        name.partition("{")[0].removeprefix("pyrometer_service_"): value
        for name, value in values.items()
        if name.startswith("pyrometer_service_") and name.endswith('{service="shop"}')
    }
    assert shop.pop("profile_bytes_total") > 1000
    assert shop.pop("last_seconds") == pytest.approx(NOW / SECOND - 540, abs=1)
    assert shop == {
        "profiles_total": 2,
        "profiler_cpu_seconds_total": 0.5,
        "profiled_seconds_total": 20,
        "profiler_bytes": 1000,
    }
    lost = 'pyrometer_service_lost_total{service="shop",kind='
    assert {name: value for name, value in values.items() if "lost_total" in name} == {
        lost + '"torn-stack"}': 4,
        lost + '"window-full"}': 6,
        lost + '"other"}': 2,
    }
    quoted = 'pyrometer_service_profiles_total{service="a \\"b\\" \\\\ c"}'
    assert values[quoted] == 1
    assert values["pyrometer_questions_total"] >= 1 and values["pyrometer_store_bytes"] > 0
    last = next(
        value
        for name, value in values.items()
        if name.startswith("pyrometer_series_last") and "shop" not in name
    )
    assert last == pytest.approx((profile.time_ns + profile.duration_ns) / SECOND, abs=0.001)


def test_a_copy_is_a_backup(tmp_path):
    """Copied while no server runs, by its two files; while one does, by SQLite's own backup."""
    server = Server(tmp_path / "store")
    profiles = [make_profile(seed) for seed in range(2)]
    assert server.upload(profiles[0], pid=0).code == 200
    with sqlite3.connect(tmp_path / "store" / "pyrometer.db") as running:
        (tmp_path / "early").mkdir()
        running.backup(sqlite3.connect(tmp_path / "early" / "pyrometer.db"))
    running.close()
    assert server.upload(profiles[1], pid=1).code == 200
    assert server.stop() == (0, "")
    shutil.copytree(tmp_path / "store", tmp_path / "late")
    for name, count in ("early", 1), ("late", 2):
        assert run("store", "check", "--data", tmp_path / name).returncode == 0
        copy = Server(tmp_path / name)
        found = copy.get("/api/top", type="wall-time")["total"]
        assert found == sum(profile.total("wall-time") for profile in profiles[:count])
        assert copy.stop() == (0, "")
