"""pyrometer report: golden texts of a profile that can be checked by hand, and sums of random
profiles against the independent reader."""

import json
import math
import os
import pty
import re

import pytest
from conftest import (
    DOCUMENT,
    SECOND,
    add,
    golden,
    good,
    new_profile,
    random_profile,
    save,
    shop_profile,
    wrong,
)


def report(*arguments):
    return json.loads(good("report", "--json", *arguments))


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("functions", []),
        ("functions-wall", ["--type", "wall-time"]),
        ("functions-two", ["-n", "2"]),
        ("functions-total", ["-t", "wall-time", "--sort", "total"]),
        ("lines", ["--lines"]),
        ("tree", ["--tree", "--type=wall-time"]),
        ("tree-parked", ["--tree", "-t", "wall-time", "--parked", "--min-pct", "10%"]),
        ("by-state", ["--by", "state", "-t", "wall-time", "--parked"]),
        ("by-thread", ["--by", "thread", "-t", "wall-time"]),
        ("types", ["--list-types"]),
    ],
)
def test_golden(shop, name, arguments):
    golden(f"report-{name}.txt", good("report", shop, *arguments))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["cpu-time", "wall-time", "wall-samples"])
def test_functions_equal_the_independent_sums(tmp_path, seed, kind):
    profile = random_profile(seed)
    path = save(profile, tmp_path / "random.pprof")
    shown = report(path, "--parked", "-n", "0", "--type", kind)
    truth = {}  # (name, file) -> [self, total]
    for sample in profile.samples:
        frames = [(name, file) for name, file, _ in sample.stack] or [("<no stack>", "")]
        value = sample.values[kind]
        for frame in set(frames):
            truth.setdefault(frame, [0, 0])[1] += value
        truth[frames[0]][0] += value
    truth = {frame: tuple(sums) for frame, sums in truth.items() if sums[1]}
    found = {(f["function"], f["file"]): (f["self"], f["total"]) for f in shown["functions"]}
    assert found == truth
    assert shown["total"] == profile.total(kind)
    assert sum(f["self"] for f in shown["functions"]) == shown["total"]
    assert shown["not_shown"] == 0


@pytest.mark.parametrize("seed", range(3))
def test_lines_and_functions_have_one_sum(tmp_path, seed):
    path = save(random_profile(seed), tmp_path / "random.pprof")
    functions = report(path, "-n", "0")
    lines = report(path, "-n", "0", "--lines")
    assert sum(f["self"] for f in lines["lines"]) == functions["total"]
    by_function = {}
    for line in lines["lines"]:
        key = (line["function"], line["file"])
        by_function[key] = by_function.get(key, 0) + line["self"]
    for function in functions["functions"]:
        assert by_function[function["function"], function["file"]] == function["self"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("least", ["0", "3"])
def test_tree_adds_up(tmp_path, seed, least):
    path = save(random_profile(seed), tmp_path / "random.pprof")
    shown = report(path, "--tree", "--min-pct", least)
    children = {}  # sum of the rows below a row
    path_to = []
    for index, row in enumerate(shown["tree"]):
        del path_to[row["depth"] :]
        parent = path_to[-1] if path_to else None
        children[parent] = children.get(parent, 0) + row["total"]
        path_to.append(index)
    assert children[None] == shown["total"]
    for index, row in enumerate(shown["tree"]):
        if "self" in row:
            assert row["self"] + children.get(index, 0) == row["total"]


def test_groups_add_up(tmp_path):
    profile = random_profile(1)
    path = save(profile, tmp_path / "random.pprof")
    shown = report(path, "--by", "state", "--parked")
    truth = {}
    for sample in profile.samples:
        state = sample.labels.get("state")
        truth[state] = truth.get(state, 0) + sample.values["cpu-time"]
    assert {group["label"]: group["value"] for group in shown["groups"]} == truth
    assert math.isclose(sum(group["share"] for group in shown["groups"]), 1)


def test_numeric_labels_group_too(shop):
    groups = report(shop, "--by", "thread native id", "-t", "wall-time")["groups"]
    assert [(group["label"], group["value"]) for group in groups] == [
        ("100", 10 * SECOND),
        ("101", 7 * SECOND),
    ]


def test_uncertainty_is_that_of_a_binomial(tmp_path):
    """Of n independent looks a share p has the error sqrt(p (1 - p) / n)."""
    profile = new_profile()
    add(profile, [("a", "a.py", 1), ("main", "a.py", 9)], cpu=1)
    add(profile, [("b", "a.py", 2), ("main", "a.py", 9)], cpu=3)
    shown = report(save(profile, tmp_path / "x.pprof"))
    by_name = {f["function"]: f for f in shown["functions"]}
    expected = 1.96 * math.sqrt(0.25 * 0.75 / 400)
    assert math.isclose(by_name["a"]["self_error"], expected, rel_tol=1e-9)
    assert math.isclose(by_name["b"]["self_error"], expected, rel_tol=1e-9)
    assert by_name["main"]["total_error"] == 0
    assert shown["samples"] == 400


def test_no_uncertainty_where_nothing_is_known(tmp_path):
    profile = new_profile()
    profile.types = [("heap-space", "bytes")]
    profile.default_type = "heap-space"
    add(profile, [("a", "a.py", 1)])
    profile.samples[0].values = {"heap-space": 3 << 20}
    path = save(profile, tmp_path / "x.pprof")
    shown = report(path)
    assert shown["samples"] is None
    assert shown["functions"][0]["self_error"] is None
    text = good("report", path)
    assert "3.00 MiB" in text and "±0" not in text


def test_types_as_json(shop):
    types = json.loads(good("report", shop, "--list-types", "--json"))
    assert [(t["type"], t["unit"], t["total"], t["default"]) for t in types] == [
        ("cpu-time", "nanoseconds", 6 * SECOND, True),
        ("cpu-samples", "count", 600, False),
        ("wall-time", "nanoseconds", 20 * SECOND, False),
        ("wall-samples", "count", 2000, False),
    ]


def test_several_files_and_folders_add_up(tmp_path, shop):
    other = save(shop_profile(), tmp_path / "other.pprof")
    for arguments in ([shop, other], [tmp_path], [f"{tmp_path}/"]):
        shown = report(*arguments)
        assert shown["files"] == 2
        assert shown["total"] == 12 * SECOND
        assert shown["duration_ns"] == 20 * SECOND


def test_losses_of_all_files_are_summed(tmp_path, shop):
    save(
        shop_profile(), tmp_path / "b.pprof", DOCUMENT.replace('"torn": 3', '"torn": 4, "late": 1')
    )
    shown = report(tmp_path)
    assert {loss["reason"]: loss["count"] for loss in shown["losses"]} == {"torn": 7, "late": 1}
    assert "Lost       7 torn" in good("report", tmp_path)


TORN = "stacks that moved in every attempt to read them"


def test_losses_in_comments_are_said_once(tmp_path):
    """Every window has them as a comment with its own number, and in its document."""
    for index, lost in enumerate((3, 4)):
        profile = new_profile(comments=[f"lost {lost}: {TORN} (torn-stack)", "lost (in) transit"])
        add(profile, [("a", "a.py", 1)], cpu=1)
        document = f'{{"losses": {{"torn-stack": {lost}}}}}'
        save(profile, tmp_path / f"{index}.pprof", document)
        save(profile, tmp_path / f"alone-{index}.pprof")
    for name in ("", "alone-"):
        shown = report(tmp_path / f"{name}0.pprof", tmp_path / f"{name}1.pprof")
        assert shown["losses"] == [{"reason": "torn-stack", "count": 7}]
        assert shown["notes"] == [f"torn-stack: {TORN}", "lost (in) transit"]


def test_every_label_is_named(tmp_path):
    profile = new_profile()
    add(profile, [("a", "a.py", 1)], cpu=1, state="io")
    profile.samples[0].labels |= {f"key {index:02}": "x" for index in range(20)}
    line = wrong("report", save(profile, tmp_path / "x.pprof"), "--by", "no")
    assert "state" in line and all(f"key {index:02}" in line for index in range(20))


def test_what_parked_threads_take_is_said(shop):
    text = good("report", shop, "-t", "wall-time")
    assert "Left out   3.000 s of parked threads" in text
    assert report(shop, "-t", "wall-time")["left_out"] == {"filtered": 0, "parked": 3 * SECOND}
    assert report(shop, "-t", "wall-time", "--parked")["left_out"]["parked"] == 0


@pytest.mark.parametrize(
    "document",
    ["", "{", "[]", "null", '{"losses": 3, "identity": [], "tick": "x"}', '{"losses": {"a": "b"}}'],
)
def test_a_broken_document_hides_nothing(tmp_path, document):
    path = save(shop_profile(), tmp_path / "x.pprof", document)
    assert report(path)["total"] == 6 * SECOND


def test_the_default_type_is_the_profiles_own(tmp_path):
    profile = shop_profile()
    profile.default_type = "wall-time"
    assert report(save(profile, tmp_path / "x.pprof"))["type"] == "wall-time"
    profile.default_type = ""
    assert report(save(profile, tmp_path / "y.pprof"))["type"] == "wall-samples"  # the last one


def test_an_empty_selection_is_no_error(shop):
    assert report(shop, "--focus", "no such function")["functions"] == []
    text = good("report", shop, "--focus", "no such function")
    assert "Shown      cpu-time, 0 ns" in text
    assert "Left out   6.000 s by the filters given" in text
    assert report(shop, "--tree", "--focus", "no such function")["tree"] == []


def test_names_of_any_script_line_up(tmp_path):
    profile = new_profile()
    for name in ("ab", "größe", "名前", "e\u0301te"):
        add(profile, [(name, "/x/y.py", 1)], cpu=1)
    rows = [
        r for r in good("report", save(profile, tmp_path / "x.pprof")).splitlines() if "/x/y" in r
    ]
    width = {"名": 2, "前": 2, "\u0301": 0}
    assert len({sum(width.get(c, 1) for c in row.split("/x/y")[0]) for row in rows}) == 1


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    profile = new_profile(comments=["note \x1b[31m red"])
    add(profile, [("evil\x1b]0;title\x07\nname", "/x\t.py", 1)], cpu=1, thread="t\x1b[2J")
    path = save(profile, tmp_path / "x.pprof")
    for arguments in ([], ["--tree"], ["--by", "thread"], ["--lines"]):
        text = good("report", path, *arguments)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    assert "evil\\x1b]0;title\\x07\\nname" in good("report", path)


def run_on_terminal(arguments, environment):
    """The program's output with a terminal as its standard output."""
    program = os.environ.get("PYROMETER_PROGRAM", "pyrometer")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(program, [program, *map(str, arguments)], {**os.environ, **environment})
    output = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        output += part
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
    return output.decode("utf-8")


def test_colour_on_a_terminal_only(shop):
    plain = {"NO_COLOR": "", "TERM": "xterm"}
    assert "\x1b[" in run_on_terminal(["report", shop], plain)
    assert "\x1b[" not in run_on_terminal(["report", shop], {**plain, "NO_COLOR": "1"})
    assert "\x1b[" not in run_on_terminal(["report", shop], {**plain, "TERM": "dumb"})
    assert "\x1b[" not in good("report", shop, environment={"TERM": "xterm"})


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--type", "cpu-tim"], 'did you mean "cpu-time"?'),
        (["--type", "xyz"], "--list-types"),
        (["--by", "stat"], "there are: thread name, thread native id, state"),
        (["--by", "state", "--tree"], "choose one"),
        (["--sort", "name"], "self or total"),
        (["-n", "-1"], "whole number"),
        (["--limit", "3x"], "whole number"),
        (["--min-pct", "101"], "percentage"),
        (["--min-pct", "x%"], "percentage"),
        (["--lines=yes"], "takes no value"),
        (["--list-typs"], "did you mean --list-types?"),
        (["--jsonn"], "did you mean --json?"),
        (["--quark"], "no option --quark"),
        (["-x"], "no option -x"),
        (["--focus", "("], "no regular expression"),
        (["--type"], "needs a value"),
    ],
)
def test_wrong_use(shop, arguments, expected):
    assert expected in wrong("report", shop, *arguments)
