"""pyrometer diff: planted changes are found, chance is not, gates exit as they say."""

import json
import random

import pytest
from conftest import SECOND, TYPES, add, call, good, new_profile, save, shop_profile, wrong

MAIN = ("main", "/app/main.py", 1)


def service(path, seed, seconds=60, **shares):
    """A thread that is always busy, looked at 100 times a second; each look is a sample."""
    source = random.Random(seed)
    profile = new_profile()
    profile.duration_ns = seconds * SECOND
    names, weights = list(shares), list(shares.values())
    for tick in range(seconds * 100):
        name = source.choices(names, weights)[0]
        add(profile, [(name, "/app/work.py", 1), MAIN], 0.01, 0.01, end=(tick + 1) / 100)
    return save(profile, path)


def compare(*arguments):
    return json.loads(good("diff", "--json", *arguments))


def changed(*arguments):
    return {f["function"]: f for f in compare(*arguments)["functions"]}


def test_a_planted_change_is_found(tmp_path):
    before = service(tmp_path / "a.pprof", 1, parse=0.5, render=0.3, log=0.2)
    after = service(tmp_path / "b.pprof", 2, parse=0.3, render=0.5, log=0.2)
    found = changed(before, after)
    assert found["render"]["total"]["change"] > 0 > found["parse"]["total"]["change"]
    assert "main" not in found and "log" not in found
    change = found["render"]["total"]
    # Values are nanoseconds a second: +0.2 of one core, and the margin covers it.
    assert abs(change["change"] - 0.2 * SECOND) < 1.5 * change["margin"]
    assert change["significant"] and change["doubt"] < 0.001


def test_chance_alone_is_noise(tmp_path):
    """Of 20 pairs of equal services hardly one shows a change at all."""
    shares = {f"f{index}": 1 for index in range(20)}
    paths = [service(tmp_path / f"{seed}.pprof", seed, 20, **shares) for seed in range(21)]
    with_change = sum(bool(changed(a, b)) for a, b in zip(paths, paths[1:]))
    assert with_change <= 3


def test_a_profile_does_not_differ_from_itself(shop):
    shown = compare(shop, shop, "--all", "-n", "0")
    assert shown["whole"]["change"] == 0
    assert all(f["total"]["change"] == 0 for f in shown["functions"])
    assert {f["function"] for f in shown["functions"]} >= {"fib", "handle", "zlib.compress"}


def test_durations_are_taken_out(tmp_path):
    """Twice the time with the same load is no change."""
    before = service(tmp_path / "a.pprof", 1, seconds=30, a=0.5, b=0.5)
    after = service(tmp_path / "b.pprof", 2, seconds=60, a=0.5, b=0.5)
    shown = compare(before, after)
    assert shown["per_second"] is True
    assert abs(shown["whole"]["before"] - SECOND) < 0.01 * SECOND
    assert abs(shown["whole"]["after"] - SECOND) < 0.01 * SECOND
    assert shown["functions"] == []


def test_folders(tmp_path):
    for side, seed, render in (("before", 10, 0.3), ("after", 20, 0.5)):
        (tmp_path / side).mkdir()
        for index in range(3):
            path = tmp_path / side / f"{index}.pprof"
            service(path, seed + index, 20, parse=1 - render, render=render)
    assert set(changed(tmp_path / "before", tmp_path / "after")) == {"parse", "render"}


@pytest.mark.parametrize(
    "limit, code", [("5%", 1), ("5", 1), ("15%", 1), ("25%", 0), ("100%", 0), ("0%", 1)]
)
def test_fail_on(tmp_path, limit, code):
    before = service(tmp_path / "a.pprof", 1, parse=0.5, render=0.3, log=0.2)
    after = service(tmp_path / "b.pprof", 2, parse=0.3, render=0.5, log=0.2)
    done = call("diff", before, after, "--fail-on", limit)
    assert done.returncode == code, done.stderr
    assert ("render grew by" in done.stderr) == (code == 1)
    assert "parse" not in done.stderr


@pytest.mark.parametrize("chosen", [["--focus", "no such name"], ["--thread", "nobody"]])
def test_a_gate_of_nothing_does_not_pass(tmp_path, chosen):
    before = service(tmp_path / "a.pprof", 1, parse=0.5, render=0.5)
    done = call("diff", before, before, "--fail-on", "5%", *chosen)
    assert done.returncode == 2
    assert "--fail-on has nothing to compare" in done.stderr


def test_fail_on_sees_growth_of_everything(tmp_path):
    before = service(tmp_path / "a.pprof", 1, seconds=60, a=0.5, b=0.5)
    profile = new_profile()
    profile.duration_ns = 30 * SECOND  # the same work in half the time
    for tick in range(6000):
        add(profile, [("ab"[tick % 2], "/app/work.py", 1), MAIN], 0.01, 0.01)
    done = call("diff", before, save(profile, tmp_path / "b.pprof"), "--fail-on", "5%")
    assert done.returncode == 1
    assert "all together grew by 100" in done.stderr


def test_fail_on_does_not_fail_by_chance(tmp_path):
    shares = {f"f{index}": 1 for index in range(20)}
    paths = [service(tmp_path / f"{seed}.pprof", seed, 20, **shares) for seed in range(11)]
    codes = [call("diff", a, b, "--fail-on", "0%").returncode for a, b in zip(paths, paths[1:])]
    assert sum(codes) <= 1


def test_a_faster_service_does_not_fail(tmp_path):
    before = service(tmp_path / "a.pprof", 1, parse=0.5, render=0.5)
    after = service(tmp_path / "b.pprof", 2, seconds=120, parse=0.5, render=0.5)
    assert call("diff", before, after, "--fail-on", "1%").returncode == 0


def test_text(tmp_path):
    before = service(tmp_path / "a.pprof", 1, parse=0.5, render=0.3, log=0.2)
    after = service(tmp_path / "b.pprof", 2, parse=0.3, render=0.5, log=0.2)
    text = good("diff", before, after)
    assert text.index("Before\n") < text.index("After\n") < text.index("Change per second")
    assert "2 functions did not change by more than the noise (--all shows them)" in text
    row = next(line for line in text.splitlines() if " render " in line)
    assert "ms/s" in row or "s/s" in row
    assert "log" in good("diff", before, after, "--all")
    assert "more changed (--limit 0 shows all)" in good("diff", before, after, "-n", "1")


def test_filters_and_types_apply_to_both_sides(shop):
    shown = compare(shop, shop, "--all", "--focus", "fib", "--type", "wall-time")
    assert shown["before"]["total"] == shown["after"]["total"] == 4 * SECOND
    assert {f["function"] for f in shown["functions"]} == {"fib", "handle", "Thread.run"}


def test_without_durations_sums_are_compared(tmp_path, shop):
    profile = shop_profile()
    profile.duration_ns = 0
    path = save(profile, tmp_path / "x.pprof")
    assert compare(path, shop)["per_second"] is False
    assert "does not say its duration" in good("diff", path, shop)


def heap_profile(path, size):
    profile = new_profile()
    profile.types = [("heap-space", "bytes")]
    profile.default_type = "heap-space"
    add(profile, [("keep", "a.py", 1)])
    profile.samples[0].values = {"heap-space": size}
    return save(profile, path)


def test_a_gate_that_cannot_tell_says_so(tmp_path):
    """Without counts of samples nothing is known of the noise: that is no silent pass."""
    a = heap_profile(tmp_path / "a.pprof", 1000)
    b = heap_profile(tmp_path / "b.pprof", 5000)
    shown = compare(a, b)
    assert shown["functions"][0]["total"]["margin"] is None
    assert shown["functions"][0]["total"]["change"] != 0
    done = call("diff", a, b, "--fail-on", "5%")
    assert done.returncode == 2
    assert "cannot tell change from noise" in done.stderr


def test_profiles_that_cannot_be_compared(tmp_path, shop):
    heap = heap_profile(tmp_path / "heap.pprof", 1000)
    assert "no sample type" in wrong("diff", shop, heap)
    other = shop_profile()
    other.types = [("cpu-time", "seconds"), *TYPES[1:]]
    assert "another unit" in wrong("diff", shop, save(other, tmp_path / "unit.pprof"))


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ([], "diff BEFORE AFTER"),
        (["P"], "diff BEFORE AFTER"),
        (["P", "P", "P"], "diff BEFORE AFTER"),
        (["P", "/no/such"], "there is no file /no/such"),
        (["P", "P", "--fail-on", "x"], "percentage"),
        (["P", "P", "--fail-on", "-5%"], "percentage"),
        (["P", "P", "--fail-on"], "needs a value"),
        (["P", "P", "--fail-onn=5"], "did you mean --fail-on?"),
    ],
)
def test_wrong_use(shop, arguments, expected):
    assert expected in wrong("diff", *[shop if word == "P" else word for word in arguments])
