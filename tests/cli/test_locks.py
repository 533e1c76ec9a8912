"""pyrometer locks and exceptions: waiters beside holders, raises beside handlers."""

import json

import pprof
import pytest
from conftest import START, good, save, wrong

APP, THREADING = "/app/shop.py", "/usr/lib/python3.11/threading.py"


def profile(types):
    return pprof.Profile(
        types=types, time_ns=START, duration_ns=10 * 10**9, default_type=types[0][0]
    )


def add(to, stack, values, **labels):
    labels = {key.replace("_", " "): value for key, value in labels.items()}
    whole = {name: 0 for name, _ in to.types} | values
    to.samples.append(pprof.Sample(stack, whole, labels))


LOCKS = [
    ("lock-acquire-wait", "nanoseconds"),
    ("lock-acquire", "count"),
    ("lock-release-hold", "nanoseconds"),
    ("lock-release", "count"),
    ("lock-hold-blocking", "nanoseconds"),
]


def locks(tmp_path):
    made = profile(LOCKS)
    get, refill = ("get", APP, 12), ("refill", APP, 40)
    enter = ("Condition.__enter__", THREADING, 300)
    main = ("main", APP, 3)
    for pair, waited in ((1, 3_000_000_000), (2, 1_000_000_000)):
        add(
            made,
            [enter, get, main],
            {"lock-acquire-wait": waited, "lock-acquire": 2},
            wait_kind="mutex",
            pair_id=pair,
            lock_name="shop.py:9:Shop.stock",
            lock_type="RLock",
        )
        add(made, [refill, main], {"lock-hold-blocking": waited}, wait_kind="mutex", pair_id=pair)
    add(
        made,
        [get, main],
        {"lock-acquire-wait": 500_000_000, "lock-acquire": 1},
        wait_kind="mutex",
        lock_type="Lock",
    )
    add(
        made,
        [("Condition.wait", THREADING, 355), get],
        {"lock-acquire-wait": 90_000_000_000, "lock-acquire": 7},
        wait_kind="park",
    )
    add(made, [refill, main], {"lock-acquire": 100})
    add(made, [refill, main], {"lock-release-hold": 4_000_000_000, "lock-release": 100})
    return save(made, tmp_path / "locks.pprof")


@pytest.mark.parametrize("file", ["asyncio/locks.py", "gevent/thread.py", "eventlet/semaphore.py"])
def test_places_are_the_programs(tmp_path, file):
    made = profile(LOCKS)
    stack = [("Lock.acquire", "/usr/lib/python3.11/" + file, 9), ("mine", APP, 7)]
    add(made, stack, {"lock-acquire-wait": 10**9, "lock-acquire": 1}, wait_kind="mutex")
    assert "shop.py:7:mine" in good("locks", save(made, tmp_path / "locks.pprof"))


def test_waiters_and_holders(tmp_path):
    out = good("locks", locks(tmp_path))
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "4.000 s 88.9 4 shop.py:12:get shop.py:40:refill shop.py:9:Shop.stock" in rows
    assert "500.000 ms 11.1 1 shop.py:12:get (not known) Lock" in rows
    assert f"4.000 s 100 refill ({APP})" in rows
    assert f"4.500 s 5 get ({APP})" in rows
    assert "Shown lock-acquire-wait, 4.500 s" in rows
    assert "90.0" not in out and "Condition" not in out  # waits to be woken are no waits for a lock


def test_locks_as_json(tmp_path):
    found = json.loads(good("locks", "--json", locks(tmp_path)))
    assert found["waits"] == [
        {
            "waited_ns": 4_000_000_000,
            "waits": 4,
            "waiter": "shop.py:12:get",
            "holder": "shop.py:40:refill",
            "lock": "shop.py:9:Shop.stock",
        },
        {
            "waited_ns": 500_000_000,
            "waits": 1,
            "waiter": "shop.py:12:get",
            "holder": None,
            "lock": "Lock",
        },
    ]
    assert found["places"][0] == {
        "place": f"refill ({APP})",
        "held_ns": 4_000_000_000,
        "waited_ns": 0,
        "taken": 100,
    }


def test_selections_and_limits(tmp_path):
    path = locks(tmp_path)
    out = good("locks", "--ignore", "get", path)
    assert "no thread waited for a lock" in out
    out = good("locks", "-n", "1", path)
    assert "(not known)" not in out
    assert out.count("1 more; --limit 0 shows all") == 2


def test_locks_of_one_line_are_told_apart(tmp_path):
    made = profile(LOCKS)
    for name, waited in (("shop.py:9:Shop.stock", 2), ("shop.py:9:Shop.till", 3)):
        value = {"lock-acquire-wait": waited * 10**9, "lock-acquire": 1}
        add(made, [("take", APP, 7)], value, wait_kind="mutex", lock_name=name)
    add(made, [("take", APP, 7)], {"lock-acquire-wait": 10**9}, wait_kind="mutex")
    found = json.loads(good("locks", "--json", save(made, tmp_path / "two.pprof")))
    assert [(wait["waited_ns"], wait["lock"]) for wait in found["waits"]] == [
        (3 * 10**9, "shop.py:9:Shop.till"),
        (2 * 10**9, "shop.py:9:Shop.stock"),
        (10**9, None),
    ]


def test_profiles_without_locks(tmp_path):
    path = save(profile([("cpu-time", "nanoseconds")]), tmp_path / "none.pprof")
    assert "has no locks" in wrong("locks", path)
    assert "has no exceptions" in wrong("exceptions", path)
    empty = save(profile(LOCKS), tmp_path / "empty.pprof")
    assert "no thread waited for a lock" in good("locks", empty)
    raised = save(profile([("exception-samples", "count")]), tmp_path / "quiet.pprof")
    assert json.loads(good("exceptions", "--json", raised))["exceptions"] == []


def exceptions(tmp_path):
    made = profile([("exception-samples", "count")])
    leaf, other = ("parse", APP, 7), ("fetch", APP, 9)
    main = ("main", APP, 3)
    for count, handled, caught in (
        (60, "yes", "shop.py:30:handler"),
        (30, "yes", "shop.py:35:retry"),
        (10, "in C", "shop.py:7:parse"),
    ):
        add(
            made,
            [leaf, main],
            {"exception-samples": count},
            exception_type="ValueError",
            handled=handled,
            caught_at=caught,
        )
    add(made, [leaf, main], {"exception-samples": 5}, exception_type="KeyError", handled="no")
    add(
        made,
        [("recv", "<native>", 0), other, main],
        {"exception-samples": 40},
        exception_type="app.Timeout",
        handled="yes",
        caught_at="shop.py:30:handler",
    )
    add(made, [("<raises between samples>", "", 0)], {"exception-samples": 3})
    return save(made, tmp_path / "raised.pprof")


def test_exceptions(tmp_path):
    out = good("exceptions", exceptions(tmp_path))
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "100 67.6 10.0 ValueError shop.py:7:parse yes 90 %, in C 10 % shop.py:30:handler" in rows
    assert "40 27.0 4.0 app.Timeout shop.py:9:fetch yes shop.py:30:handler" in rows
    assert "5 3.4 0.5 KeyError shop.py:7:parse no" in rows
    assert "3 2.0 0.3 (not sampled) <raises between samples> ?" in rows


def test_exceptions_as_json(tmp_path):
    found = json.loads(good("exceptions", "--json", exceptions(tmp_path)))
    assert found["total"] == 148
    assert found["exceptions"][0] == {
        "type": "ValueError",
        "raised_at": "shop.py:7:parse",
        "raised": 100,
        "per_second": 10.0,
        "handled": 90,
        "handled_in_c": 10,
        "unhandled": 0,
        "unknown": 0,
        "caught_at": "shop.py:30:handler",
    }
    assert found["exceptions"][2]["caught_at"] is None
    out = good("exceptions", "-n", "1", exceptions(tmp_path))
    assert "3 more; --limit 0 shows all" in out
