"""Which samples are looked at: every filter, alone and with others, against a plain model."""

import json
import re

import pytest
from conftest import SECOND, good, random_profile, save, shop_profile, wrong


def wall(shop, *arguments):
    """(total, {function: (self, total)}) of wall-time in seconds."""
    shown = json.loads(good("report", shop, "--json", "-t", "wall-time", *arguments))
    functions = {
        f["function"]: (f["self"] / SECOND, f["total"] / SECOND) for f in shown["functions"]
    }
    return shown["total"] / SECOND, functions


def test_focus_keeps_stacks(shop):
    total, functions = wall(shop, "--focus", "^fib$")
    assert total == 4
    assert functions["handle"] == (0, 4)
    assert "zlib.compress" not in functions


def test_focus_looks_at_files_too(shop):
    assert wall(shop, "--focus", r"calc\.py$")[0] == 4


def test_several_focus_must_all_match(shop):
    assert wall(shop, "--focus", "handle", "--focus", "native")[0] == 3
    assert wall(shop, "--focus", "fib", "--focus", "serve")[0] == 0


def test_ignore_drops_stacks(shop):
    assert wall(shop, "--ignore", "fib")[0] == 13
    assert wall(shop, "--ignore", "fib", "--ignore", "serve")[0] == 3


def test_hide_takes_frames_out(shop):
    total, functions = wall(shop, "--hide", "^zlib")
    assert total == 17
    assert functions["Cart.größe"] == (2, 2)
    assert "zlib.compress" not in functions


def test_a_stack_with_all_frames_hidden_is_left_out_and_said(shop):
    shown = json.loads(good("report", shop, "--json", "-t", "wall-time", "--hide", "main.py"))
    assert shown["total"] == 7 * SECOND
    assert shown["left_out"]["filtered"] == 10 * SECOND


def test_thread(shop):
    assert wall(shop, "--thread", "^worker-")[0] == 7
    assert wall(shop, "--thread", "Main")[0] == 10
    assert wall(shop, "--thread", "Main", "--thread", "worker")[0] == 17


def test_state(shop):
    assert wall(shop, "--state", "gil-wait")[0] == 1
    assert wall(shop, "--state", "gil-wait", "--state", "io")[0] == 11


def test_asking_for_the_state_parked_shows_it(shop):
    assert wall(shop, "--state", "parked")[0] == 3


def test_label(shop):
    assert wall(shop, "--label", "state=io|gil")[0] == 11
    assert wall(shop, "--label", "thread native id=^101$")[0] == 7
    assert wall(shop, "--label", "state=io", "--label", "thread name=worker")[0] == 0
    assert wall(shop, "--label", "no such=.*")[0] == 0


def test_filters_work_together(shop):
    assert wall(shop, "--thread", "worker", "--focus", "handle", "--ignore", "fib")[0] == 3


@pytest.mark.parametrize("label", ["state", "=x", ""])
def test_a_label_without_a_key_is_refused(shop, label):
    assert "KEY=REGEX" in wrong("report", shop, "--label", label)


@pytest.mark.parametrize("option", ["focus", "ignore", "hide", "thread", "label"])
def test_a_bad_expression_is_refused(shop, option):
    text = "state=[" if option == "label" else "["
    assert "no regular expression" in wrong("report", shop, f"--{option}", text)


def test_a_state_that_is_none_is_refused(shop, tmp_path):
    """A selection of nothing would look like a program that does nothing."""
    assert 'did you mean "gil-wait"?' in wrong("report", shop, "--state", "gil_wait")
    assert "there are on-cpu, runnable, " in wrong("report", shop, "--state", "xyz")
    assert wall(shop, "--state", "sleep")[0] == 0
    foreign = shop_profile()
    foreign.samples[0].labels["state"] = "xyz"
    assert wall(save(foreign, tmp_path / "foreign.pprof"), "--state", "xyz")[0] == 1


def test_too_many_of_an_option(shop):
    assert "32" in wrong("report", shop, *["--focus=x"] * 33)


@pytest.mark.parametrize("seed", range(4))
def test_random_profiles_against_a_model(tmp_path, seed):
    profile = random_profile(seed)
    path = save(profile, tmp_path / "random.pprof")
    total, functions = 0, {}
    for sample in profile.samples:
        frames = [(n, f) for n, f, _ in sample.stack] or [("<no stack>", "")]
        names = [text for frame in frames for text in frame]
        if sample.labels.get("state") == "parked":
            continue
        if not any(re.search("f[0-5]", text) for text in names):
            continue
        if any(re.search("quote", text) for text in names):
            continue
        shown = [frame for frame in frames if not re.search("native", frame[0] + "\n" + frame[1])]
        if not shown:
            continue
        value = sample.values["cpu-time"]
        total += value
        for frame in set(shown):
            functions.setdefault(frame, [0, 0])[1] += value
        functions[shown[0]][0] += value
    arguments = ["--focus", "f[0-5]", "--ignore", "quote", "--hide", "native", "-n", "0"]
    found = json.loads(good("report", path, "--json", *arguments))
    assert found["total"] == total
    assert {(f["function"], f["file"]): [f["self"], f["total"]] for f in found["functions"]} == {
        frame: sums for frame, sums in functions.items() if sums[1]
    }
    assert sum(found["left_out"].values()) + total == profile.total("cpu-time")
