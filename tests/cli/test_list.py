"""pyrometer list: costs beside the right lines, and honesty about sources."""

import os

import pytest
from conftest import SECOND, START, add, golden, good, new_profile, save, wrong

SOURCE = """def fib(n):
    if n < 2:
        return n
\tx = "größe"  # a tab
    return fib(n - 1) + fib(n - 2)


def other():
    pass
"""


def listed_lines(text):
    """{line number: (self, total, source)} of the rows of a listing."""
    rows = {}
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split() == ["self", "total", "line"])
    for line in lines[start + 1 :]:
        if line.strip():
            value, total, number = line[:12].strip(), line[13:25].strip(), line[26:32]
            rows[int(number)] = (value, total, line[34:])
    return rows


@pytest.fixture
def profiled(tmp_path):
    """A profile of a source file that is older than the profile."""
    source = tmp_path / "src" / "calc.py"
    source.parent.mkdir()
    source.write_text(SOURCE, encoding="utf-8")
    old = (START - 100 * SECOND) / SECOND
    os.utime(source, (old, old))
    profile = new_profile()
    add(profile, [("fib", str(source), 3), ("fib", str(source), 5)], cpu=1)
    add(profile, [("fib", str(source), 5)], cpu=0.5)
    add(profile, [("zlib.crc32", "<native>", 0), ("fib", str(source), 5)], cpu=0.25)
    return save(profile, tmp_path / "p.pprof"), source


def test_costs_stand_beside_their_lines(profiled):
    path, _ = profiled
    rows = listed_lines(good("list", "^fib$", path))
    assert rows[3] == ("1.000 s", "1.000 s", "        return n")
    assert rows[5] == ("0.500 s", "1.750 s", "    return fib(n - 1) + fib(n - 2)")
    assert rows[1] == (".", ".", "def fib(n):")
    assert rows[4][2] == '\tx = "größe"  # a tab'
    assert list(rows) == list(range(1, 10))


def test_golden(profiled, tmp_path):
    path, source = profiled
    golden("list.txt", good("list", "fib|crc32", path).replace(str(tmp_path), "/tmp"))


def test_a_source_that_changed_is_said(profiled):
    path, source = profiled
    os.utime(source, (START / SECOND + 3600,) * 2)
    assert "changed after the profile, at 2025-11-29 23:00:00 UTC" in good("list", "fib", path)


def test_a_missing_source_is_said_and_costs_are_shown(profiled):
    path, source = profiled
    source.unlink()
    text = good("list", "^fib$", path)
    assert "was not found; --source-path" in text
    assert {number: row[:2] for number, row in listed_lines(text).items()} == {
        3: ("1.000 s", "1.000 s"),
        5: ("0.500 s", "1.750 s"),
    }


def test_source_path(profiled, tmp_path):
    """The end of the recorded path is looked up below the folder given."""
    path, source = profiled
    root = tmp_path / "elsewhere" / "src"
    root.mkdir(parents=True)
    source.rename(root / "calc.py")
    for folder in (root, root.parent):
        text = good("list", "^fib$", path, "--source-path", folder)
        assert listed_lines(text)[3][2] == "        return n"
    assert "not found" in good("list", "^fib$", path, "--source-path", tmp_path)


def test_a_line_beyond_the_source_is_said(profiled):
    path, source = profiled
    source.write_text("only one line\n")
    assert "(the source has no such line)" in good("list", "^fib$", path)


def test_native_code_has_no_source(profiled):
    assert "No source" in good("list", "crc32", profiled[0])


def test_hostile_source(profiled):
    path, source = profiled
    source.write_bytes(b"\x1b[2J\xff\x00\r\n" * 3 + b"no newline at the end")
    text = good("list", "^fib$", path)
    assert "\x1b" not in text and "\x00" not in text
    assert "\\x1b[2J\ufffd\\x00" in text


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_a_source_that_is_no_file(profiled, kind):
    path, source = profiled
    source.unlink()
    source.mkdir() if kind == "folder" else os.mkfifo(source)
    assert "not found" in good("list", "^fib$", path)


def test_filters_apply(profiled):
    rows = listed_lines(good("list", "^fib$", profiled[0], "--focus", "crc32"))
    assert rows[5][:2] == (".", "250.000 ms")


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["nothing", "P"], 'matches "nothing"'),
        (["(", "P"], "no regular expression"),
        (["fib"], "list FUNCTION FILE"),
        ([], "list FUNCTION FILE"),
        (["fib", "P", "--source", "x"], "did you mean --source-path?"),
    ],
)
def test_wrong_use(profiled, arguments, expected):
    words = [profiled[0] if word == "P" else word for word in arguments]
    assert expected in wrong("list", *words)
