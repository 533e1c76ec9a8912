"""pyrometer leaks on documents made here: the newest of each process, suspects by how surely and
how fast they grow; and on documents that lie."""

import json

import pytest
from conftest import call


def site(function, growth, error=1.0, suspect=True, **more):
    return {
        "function": function,
        "file": "/app/shop.py",
        "line": 7,
        "caller": "serve (/app/main.py:3)",
        "live_bytes": 5e6,
        "standard_error": 1e5,
        "live_bytes_by_age": [1e6, 1e6, 2e6, 1e6],
        "growth_bytes_per_s": growth,
        "growth_standard_error": error,
        "confidence": 0.99995,
        "windows": 30,
        "suspect": suspect,
    } | more


def document(folder, name, sites, runtime_id="one", end_ns=100, pid=12):
    path = folder / f"{name}.pprof.json"
    content = {
        "schema": 1,
        "identity": {"runtime_id": runtime_id, "pid": pid, "service": "shop"},
        "window": {"sequence": 1, "start_ns": 0, "end_ns": end_ns, "samples": 5},
        "leak_sites": sites,
    }
    path.write_text(json.dumps(content))
    return path


def shown(*arguments, code=0):
    done = call("leaks", *map(str, arguments))
    assert done.returncode == code, done.stderr
    return done.stdout


def test_suspects_by_how_surely_they_grow(tmp_path):
    document(
        tmp_path,
        "a",
        [site("sure", 100.0), site("faster", 300.0, 150.0), site("level", 500.0, 1.0, False)],
    )
    document(tmp_path, "b", [site("other", 200.0)], "two")
    rows = json.loads(shown("--json", tmp_path))["sites"]
    assert [row["function"] for row in rows] == ["other", "sure", "faster"]
    rows = json.loads(shown("--json", "--all", tmp_path))["sites"]
    assert [row["function"] for row in rows] == ["other", "sure", "faster", "level"]
    assert rows[0]["live_bytes_over_10_minutes"] == 3e6
    text = shown(tmp_path)
    assert "2 processes, the newest of 2 documents; 3 suspects" in text
    assert "other (/app/shop.py:7)" in text and "serve (/app/main.py:3)" in text
    assert "level" not in text
    assert len(shown("-n", "1", tmp_path).splitlines()) == len(text.splitlines()) - 2
    shown("--fail", tmp_path, code=1)


def test_the_newest_document_of_a_process_counts(tmp_path):
    old = document(tmp_path, "a", [site("old", 100.0)], end_ns=100)
    new = document(tmp_path, "b", [site("new", 100.0)], end_ns=200)
    for order in ([old, new], [new, old], [tmp_path]):
        rows = json.loads(shown("--json", *order))["sites"]
        assert [row["function"] for row in rows] == ["new"]
    (tmp_path / "a.pprof").write_bytes(b"")
    assert "old" in shown(tmp_path / "a.pprof")


def test_without_the_live_heap_there_is_no_judgement(tmp_path):
    path = document(tmp_path, "a", [])
    content = json.loads(path.read_text())
    del content["leak_sites"]
    path.write_text(json.dumps(content))
    text = shown(tmp_path)
    assert "HEAP_ENABLED was off" in text and "ten windows" not in text


def test_too_few_windows_say_so(tmp_path):
    path = document(tmp_path, "a", [site("young", 100.0, 1.0, False, windows=4)])
    assert "before a process has delivered ten windows; the most here are 4" in shown(path)
    shown("--fail", path)


@pytest.mark.parametrize(
    "sites",
    [
        None,
        "none",
        [None, 5, "x", [], {}],
        [{"suspect": True}],
        [{"suspect": True, "function": 5, "line": "x", "live_bytes_by_age": {}}],
        [site("\x1b[31mred\n", 1e308, 1e308)],
        [site("x", 1.0)] * 1000,
    ],
)
def test_documents_that_lie(tmp_path, sites):
    path = document(tmp_path, "a", sites)
    for option in ("--all", "--json"):
        output = shown(option, path)
        assert "\x1b" not in output


def test_a_bad_document_in_a_folder_is_named_and_left_out(tmp_path):
    document(tmp_path, "a", [site("good", 100.0)])
    (tmp_path / "b.pprof.json").write_text("{")
    done = call("leaks", "--json", tmp_path)
    assert done.returncode == 0
    assert [row["function"] for row in json.loads(done.stdout)["sites"]] == ["good"]
    assert len(done.stderr.splitlines()) == 1 and "b.pprof.json cannot be read" in done.stderr


def test_files_that_are_none(tmp_path):
    for path in (tmp_path / "absent.pprof", tmp_path / "absent.json", tmp_path):
        done = call("leaks", str(path))
        assert done.returncode == 2
        assert done.stderr.startswith("pyrometer: there ")
    (tmp_path / "bad.json").write_text("{")
    assert call("leaks", str(tmp_path / "bad.json")).returncode == 2
