"""Stores of earlier versions: they open, answer as they did, and go on.

stores/version-N.sql is what a program of version N wrote of the windows below, as text."""

import sqlite3
from pathlib import Path

import pytest
from conftest import SECOND, TYPES, Server, pprof, run
from test_truth import as_sent

STORES = sorted((Path(__file__).parent / "stores").glob("version-*.sql"))
BEGIN = 1_700_000_000 // 3600 * 3600 * SECOND
WINDOWS = 3


def window(number):
    """Of one process, a minute after the other. Not to be changed: the files have it."""
    start_ns = BEGIN + number * 60 * SECOND
    profile = pprof.Profile(
        list(TYPES),
        time_ns=start_ns,
        duration_ns=60 * SECOND,
        period_type=TYPES[0],
        period=10**7,
        default_type="cpu-time",
    )
    for at in range(24):
        stack = [(f"f{(at * level + number) % 5}", "/app/a.py", level) for level in range(at % 4)]
        labels = {"thread name": f"worker-{at % 3}", "thread native id": 100 + at % 3}
        labels["end_timestamp_ns"] = start_ns + at * 1_234_567_890
        values = {
            "cpu-time": at * at * 1_000_003,
            "cpu-samples": at % 5 + 1,
            "wall-time": at * 3_703_703_670,
            "exception-samples": int(at % 7 == 0),
        }
        profile.samples.append(pprof.Sample(stack, values, labels))
    return profile


@pytest.mark.parametrize("file", STORES, ids=lambda file: file.stem)
def test_a_store_of_an_earlier_version(file, tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()
    database = sqlite3.connect(folder / "pyrometer.db")
    database.executescript(file.read_text())
    database.close()
    server = Server(folder)
    windows = [window(number) for number in range(WINDOWS)]
    rows = server.get("/api/profiles", **{"from": 0})["profiles"]
    kept = [server.ask("GET", "/api/pprof", profile=row["profile"]).body for row in rows]
    assert sorted(as_sent(pprof.parse(body)) for body in kept) == sorted(map(as_sent, windows))

    # One that came late is beside the sum of its hour, then in it.
    windows.append(window(WINDOWS))
    assert server.upload(windows[-1], pid=1).code == 200
    whole = {"service": "shop", "from": BEGIN, "until": BEGIN + 3600 * SECOND}
    for _ in range(2):
        for name, _ in TYPES:
            top = server.get("/api/top", type=name, **whole)
            assert top["total"] == sum(profile.total(name) for profile in windows)
        assert server.stop() == (0, "")
        assert run("store", "compact", "--data", folder).returncode == 0
        done = run("store", "check", "--data", folder)
        assert done.stdout == f"{len(windows)} profiles, all good\n"
        server = Server(folder)
    assert server.stop() == (0, "")
