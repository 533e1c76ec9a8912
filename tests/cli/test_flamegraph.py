"""pyrometer flamegraph: the document in the page, against its format and the profile's sums."""

import json
import re

import pytest
from conftest import (
    DOCUMENT,
    GOLDEN,
    SECOND,
    START,
    add,
    call,
    good,
    new_profile,
    random_profile,
    save,
    shop_profile,
    wrong,
)

SCHEMA = GOLDEN.parents[2] / "ui" / "flamegraph" / "profile.schema.json"


def document_of(page):
    found = re.search(
        r'<script id="profile" type="application/json">(.*?)</script>', page, re.DOTALL
    )
    assert found, "the page has no place for a profile"
    return json.loads(found.group(1))


def check(document):
    """The rules of profile.schema.json, and that each index exists."""
    schema = json.loads(SCHEMA.read_text())
    assert set(document) <= set(schema["properties"])
    assert set(document) >= set(schema["required"])
    strings, functions = document["strings"], document["functions"]
    assert re.fullmatch(r"[0-9]{1,20}", document["start_ns"])
    assert 0 <= document["default"] < len(document["types"])
    assert all(isinstance(text, str) for text in strings + document["notes"])
    for name, file, line in functions:
        assert 0 <= name < len(strings) and 0 <= file < len(strings) and line >= 0
    for function, line in document["frames"]:
        assert 0 <= function < len(functions) and line >= 0
    for index, (parent, frame) in enumerate(document["stacks"]):
        assert -1 <= parent < index and 0 <= frame < len(document["frames"])
    for name, native_id in document["threads"]:
        assert 0 <= name < len(strings) and native_id >= 0
    assert all(0 <= state < len(strings) for state in document["states"])
    for stack, thread, state, values in document["samples"]:
        assert 0 <= stack < len(document["stacks"])
        assert 0 <= thread < len(document["threads"])
        assert -1 <= state < len(document["states"])
        assert len(values) == len(document["types"]) and all(value >= 0 for value in values)
    assert all(len(row) == 2 for row in document["rows"])


def stack_of(document, index):
    """Leaf first, as in the profile."""
    stack = []
    while index >= 0:
        index, frame = document["stacks"][index]
        function, line = document["frames"][frame]
        name, file, _ = document["functions"][function]
        stack.append((document["strings"][name], document["strings"][file], line))
    return stack


def sums(document):
    """{(stack, thread, state): values}"""
    strings = document["strings"]
    found = {}
    for stack, thread, state, values in document["samples"]:
        name, native_id = document["threads"][thread]
        state_text = strings[document["states"][state]] if state >= 0 else None
        key = (tuple(stack_of(document, stack)), strings[name], native_id, state_text)
        assert key not in found, "equal samples must be added up"
        found[key] = values
    return found


def truth(profile):
    added = {}
    for sample in profile.samples:
        values = [sample.values[name] for name, _ in profile.types]
        if not any(values):
            continue
        stack = tuple(sample.stack) or (("<no stack>", "", 0),)
        labels = sample.labels
        key = (stack, labels["thread name"], labels["thread native id"], labels.get("state"))
        added[key] = [a + b for a, b in zip(added.get(key, [0] * len(values)), values)]
    return added


@pytest.mark.parametrize("seed", range(4))
def test_the_page_holds_the_profile(tmp_path, seed):
    profile = random_profile(seed)
    path = save(profile, tmp_path / "random.pprof")
    document = document_of(good("flamegraph", path, "-o", "-"))
    check(document)
    assert sums(document) == truth(profile)


def test_the_page_is_the_built_one_around_the_profile(shop):
    page = good("flamegraph", shop, "-o", "-")
    built = (SCHEMA.parents[1] / "dist" / "flamegraph.html").read_text(encoding="utf-8")
    before, marker, after = built.partition("/*PROFILE*/null")
    assert marker and before and after
    assert page.startswith(before) and page.endswith(after)


def test_the_facts(shop):
    document = document_of(good("flamegraph", shop, "-o", "-"))
    check(document)
    assert document["title"] == "shop, pid 4711, host web-1, Python 3.11.2"
    assert document["start_ns"] == str(START)
    assert document["duration_ns"] == 10 * SECOND
    assert document["types"][document["default"]] == {"type": "cpu-time", "unit": "nanoseconds"}
    assert "Lost: 3 torn" in document["notes"]
    assert "window 1 of pyrometer" in document["notes"]
    assert ["interval", "10.000 ms"] in document["rows"]


def test_parked_samples_are_in_the_page(shop):
    assert sums(document_of(good("flamegraph", shop, "-o", "-"))) == truth(shop_profile())


def test_the_type_shown_first(shop):
    document = document_of(good("flamegraph", shop, "-o", "-", "--type", "wall-time"))
    assert document["types"][document["default"]]["type"] == "wall-time"


def test_filters_leave_a_note(shop):
    document = document_of(good("flamegraph", shop, "-o", "-", "--focus", "fib"))
    assert len(document["samples"]) == 1
    assert (
        "The page was made with filters, which left out 2.000 s of cpu-time." in document["notes"]
    )


def test_names_cannot_end_the_script(tmp_path):
    profile = new_profile(comments=["</script><script>alert(1)</script>", "<!--"])
    add(profile, [('</script><b>"\\ \u2028', "</SCRIPT >", 1)], cpu=1, thread="<!--<script>")
    page = good("flamegraph", save(profile, tmp_path / "x.pprof"), "-o", "-")
    document = document_of(page)
    check(document)
    assert stack_of(document, 0) == [('</script><b>"\\ \u2028', "</SCRIPT >", 1)]
    inside = page[page.index('type="application/json">') :]
    inside = inside[: inside.index("</script>")]
    assert "<" not in inside.split(">", 1)[1]


def test_negative_values_are_left_out_and_said(tmp_path):
    profile = new_profile()
    add(profile, [("less", "a.py", 1)], cpu=-1)
    add(profile, [("more", "a.py", 1)], cpu=1)
    document = document_of(good("flamegraph", save(profile, tmp_path / "x.pprof"), "-o", "-"))
    check(document)
    assert len(document["samples"]) == 1
    assert "1 samples with negative values are left out." in document["notes"]


def test_the_default_name(tmp_path, shop):
    done = call("flamegraph", shop)
    assert done.returncode == 0 and done.stdout == ""
    page = tmp_path / "shop.1.1.html"
    assert f"wrote {page}" in done.stderr
    assert document_of(page.read_text(encoding="utf-8"))["title"].startswith("shop")
    folder = tmp_path / "day"
    folder.mkdir()
    save(shop_profile(), folder / "a.pprof", DOCUMENT)
    for name in (folder, f"{folder}/"):
        assert call("flamegraph", name).returncode == 0
        (tmp_path / "day.html").unlink()
    assert call("flamegraph", ".", cwd=folder).returncode == 0
    assert (folder / "flamegraph.html").exists()


def test_several_processes_are_rows(tmp_path, shop):
    save(shop_profile(), tmp_path / "b.pprof", DOCUMENT.replace("4711", "4712"))
    rows = document_of(good("flamegraph", tmp_path, "-o", "-"))["rows"]
    assert [value for label, value in rows if label == "process"] == [
        f"shop, pid {pid}, host web-1, Python 3.11.2" for pid in (4712, 4711)
    ]


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["-o", "/no/such/folder/x.html", "P"], "cannot write /no/such/folder/x.html"),
        (["-o"], "needs a value"),
        ([], "flamegraph FILE"),
        (["P", "--type", "cpu"], "no sample type"),
        (["P", "--outptu", "x"], "did you mean --output?"),
    ],
)
def test_wrong_use(shop, arguments, expected):
    assert expected in wrong("flamegraph", *[shop if word == "P" else word for word in arguments])
