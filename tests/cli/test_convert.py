"""pyrometer convert: each format against its rules and the profile's sums."""

import json
import os
import re
import shutil
import subprocess

import pprof
import pytest
from conftest import (
    SECOND,
    START,
    add,
    call,
    golden,
    good,
    new_profile,
    random_profile,
    save,
    shop_profile,
    wrong,
)


def convert(path, kind, *arguments):
    done = call("convert", path, "-f", kind, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ------------------------------------------------------------------------------- collapsed


def test_collapsed_golden(shop):
    golden("collapsed.txt", good("convert", shop, "-f", "collapsed", "--type", "wall-time"))
    golden("collapsed-lines.txt", good("convert", shop, "-f", "collapsed", "--lines"))


@pytest.mark.parametrize("seed", range(3))
def test_collapsed_holds_the_profile(tmp_path, seed):
    profile = random_profile(seed)
    truth = {}
    for sample in profile.samples:
        frames = [(n, f) for n, f, _ in reversed(sample.stack)] or [("<no stack>", "")]
        texts = [(n + (f" ({f})" if f else "")).replace(";", "\\x3b") for n, f in frames]
        truth[";".join(texts)] = truth.get(";".join(texts), 0) + sample.values["cpu-time"]
    text = convert(save(profile, tmp_path / "x.pprof"), "collapsed", "--parked")
    found = {}
    for line in text.splitlines():
        stack, value = re.fullmatch(r"(.+) (-?\d+)", line).groups()
        assert stack not in found
        found[stack] = int(value)
    assert found == {stack: value for stack, value in truth.items() if value}


def test_collapsed_has_one_line_a_stack_whatever_the_names(tmp_path):
    profile = new_profile()
    add(profile, [("a;b\nc", "x\r.py", 1), ("root", "", 1)], cpu=1)
    text = convert(save(profile, tmp_path / "x.pprof"), "collapsed")
    assert text == "root;a\\x3bb\\nc (x\\x0d.py) 1000000000\n"


# ------------------------------------------------------------------------------ speedscope


def check_speedscope(document):
    """What speedscope's importer insists on (its file-format-spec.ts and Profile builders)."""
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    assert all(isinstance(frame["name"], str) for frame in frames)
    units = {"bytes", "microseconds", "milliseconds", "nanoseconds", "none", "seconds"}
    for profile in document["profiles"]:
        assert profile["type"] == "sampled" and profile["unit"] in units
        assert len(profile["samples"]) == len(profile["weights"]) > 0
        assert all(weight > 0 for weight in profile["weights"])
        assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])
        for stack in profile["samples"]:
            assert stack and all(0 <= index < len(frames) for index in stack)
    assert 0 <= document["activeProfileIndex"] < len(document["profiles"])


@pytest.mark.parametrize("seed", range(3))
def test_speedscope_holds_the_profile(tmp_path, seed):
    profile = random_profile(seed)
    document = json.loads(convert(save(profile, tmp_path / "x.pprof"), "speedscope", "--parked"))
    check_speedscope(document)
    found = {}
    for one in document["profiles"]:
        for stack, weight in zip(one["samples"], one["weights"]):
            frames = [document["shared"]["frames"][index] for index in reversed(stack)]
            key = (one["name"], tuple((f["name"], f.get("file", "")) for f in frames))
            found[key] = found.get(key, 0) + weight
    truth = {}
    for sample in profile.samples:
        stack = tuple((n, f) for n, f, _ in sample.stack) or (("<no stack>", ""),)
        thread = f"{sample.labels['thread name']} ({sample.labels['thread native id']})"
        for name, _ in profile.types:
            if sample.values[name]:
                key = (f"{thread}: {name}", stack)
                truth[key] = truth.get(key, 0) + sample.values[name]
    assert found == truth


def test_speedscope_orders_by_time_and_shows_the_chosen_type_first(shop):
    document = json.loads(convert(shop, "speedscope", "--type", "wall-time", "--lines"))
    check_speedscope(document)
    active = document["profiles"][document["activeProfileIndex"]]
    assert active["name"].endswith(": wall-time")
    worker = next(p for p in document["profiles"] if p["name"] == "worker-1 (101): wall-time")
    assert worker["weights"] == [1 * SECOND, 2 * SECOND, 3 * SECOND, 1 * SECOND]
    assert {frame.get("line") for frame in document["shared"]["frames"]} >= {4, 5, None}


# ------------------------------------------------------------------------------------ gecko


def check_table(table, columns):
    assert set(table) == {"length", *columns}
    assert all(len(table[column]) == table["length"] for column in columns)


def check_gecko(document):
    """Rules of the processed format, version 57 (types/profile.ts and its change log)."""
    meta = document["meta"]
    assert meta["preprocessedProfileVersion"] == 57
    assert meta["categories"][0]["color"] == "grey"  # the category of stacks that have none
    assert all(category["subcategories"] == ["Other"] for category in meta["categories"])
    assert meta["sampleUnits"] == {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs"}
    strings = document["shared"]["stringArray"]
    assert document["libs"] == [] and document["threads"]
    for thread in document["threads"]:
        assert isinstance(thread["pid"], str) and isinstance(thread["isMainThread"], bool)
        samples, stacks, frames, functions = (
            thread[name] for name in ("samples", "stackTable", "frameTable", "funcTable")
        )
        assert samples["weightType"] == "tracing-ms"
        columns = ["stack", "time", "weight", "threadCPUDelta"]
        check_table({k: v for k, v in samples.items() if k != "weightType"}, columns)
        assert samples["time"] == sorted(samples["time"])
        for stack in samples["stack"]:
            assert stack is None or 0 <= stack < stacks["length"]
        check_table(stacks, ["prefix", "frame"])
        for index, prefix in enumerate(stacks["prefix"]):
            assert prefix is None or 0 <= prefix < index
        assert all(0 <= frame < frames["length"] for frame in stacks["frame"])
        check_table(
            frames,
            ["address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol"]
            + ["innerWindowID", "line", "column"],
        )
        assert all(0 <= function < functions["length"] for function in frames["func"])
        assert all(0 <= category < len(meta["categories"]) for category in frames["category"])
        check_table(
            functions,
            ["name", "isJS", "relevantForJS", "resource", "fileName", "lineNumber"]
            + ["columnNumber"],
        )
        assert all(0 <= name < len(strings) for name in functions["name"])
        assert all(f is None or 0 <= f < len(strings) for f in functions["fileName"])
        check_table(
            thread["markers"], ["data", "name", "startTime", "endTime", "phase", "category"]
        )
        assert all(0 <= name < len(strings) for name in thread["markers"]["name"])
        check_table(thread["resourceTable"], ["lib", "name", "host", "type"])
        check_table(thread["nativeSymbols"], ["libIndex", "address", "name", "functionSize"])


def gecko_stack(document, thread, stack):
    names = []
    while stack is not None:
        frame = thread["stackTable"]["frame"][stack]
        function = thread["frameTable"]["func"][frame]
        names.append(document["shared"]["stringArray"][thread["funcTable"]["name"][function]])
        stack = thread["stackTable"]["prefix"][stack]
    return names


def test_gecko_of_a_timeline(shop):
    document = json.loads(good("convert", shop, "-f", "gecko", "--parked"))
    check_gecko(document)
    assert document["meta"]["startTime"] == START / 1e6
    threads = {thread["name"]: thread for thread in document["threads"]}
    worker = threads["worker-1 (101)"]
    assert worker["tid"] == 101 and not worker["isMainThread"]
    assert threads["MainThread (100)"]["isMainThread"]
    samples = worker["samples"]
    assert samples["time"] == [0, 1000, 3000, 6000, 7000, 10000]
    assert samples["weight"] == [1000, 2000, 3000, 1000, 3000, 0]
    assert samples["threadCPUDelta"] == [0, 1e6, 2e6, 3e6, 0, 0]
    assert samples["stack"][-1] is None
    stack = gecko_stack(document, worker, samples["stack"][1])
    assert stack == ["zlib.compress", "Cart.größe", "handle", "Thread.run"]
    markers = worker["markers"]
    names = [document["shared"]["stringArray"][name] for name in markers["name"]]
    assert names == ["on-cpu", "gil-wait", "parked"]  # neighbours of one state are one
    assert markers["startTime"] == [0, 6000, 7000] and markers["endTime"] == [6000, 7000, 10000]


def test_gecko_shows_gaps(tmp_path):
    profile = new_profile()
    add(profile, [("a", "a.py", 1)], cpu=1, wall=1, end=1)
    add(profile, [("b", "a.py", 2)], cpu=0, wall=1, end=5)
    document = json.loads(good("convert", save(profile, tmp_path / "x.pprof"), "-f", "gecko"))
    check_gecko(document)
    samples = document["threads"][0]["samples"]
    assert samples["time"] == [0, 1000, 4000, 5000]
    assert [stack is None for stack in samples["stack"]] == [False, True, False, True]


@pytest.mark.parametrize("kind", ["gecko", "chrometrace"])
def test_samples_without_times_stand_one_after_the_other_and_it_is_said(tmp_path, kind):
    profile = random_profile(2)
    done = call("convert", save(profile, tmp_path / "x.pprof"), "-f", kind, "--parked")
    assert done.returncode == 0
    assert "one after the other" in done.stderr
    document = json.loads(done.stdout)
    total = profile.total("wall-time")
    if kind == "gecko":
        check_gecko(document)
        weights = sum(sum(thread["samples"]["weight"]) for thread in document["threads"])
        assert abs(weights * 1e6 - total) < 1000
    else:
        roots = [event for event in check_trace(document) if event["depth"] == 0]
        assert abs(sum(event["dur"] for event in roots) * 1e3 - total) < 1000


def test_samples_without_a_time_among_others_are_said(tmp_path):
    profile = shop_profile()
    del profile.samples[0].labels["end_timestamp_ns"]
    done = call("convert", save(profile, tmp_path / "x.pprof"), "-f", "gecko")
    assert done.returncode == 0
    assert "1.000 s in samples without a time are left out" in done.stderr


# ------------------------------------------------------------------------------ chrometrace


def check_trace(document):
    """Complete events of each thread, nested in file order; each gets its depth."""
    events = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert {event["ph"] for event in document["traceEvents"]} <= {"X", "M"}
    open_events = {}
    for event in events:
        stack = open_events.setdefault(event["tid"], [])
        assert event["dur"] >= 0
        while stack and event["ts"] >= stack[-1]["ts"] + stack[-1]["dur"] - 1e-3:
            stack.pop()
        if stack:
            end = stack[-1]["ts"] + stack[-1]["dur"]
            assert stack[-1]["ts"] <= event["ts"] and event["ts"] + event["dur"] <= end + 1e-3
        event["depth"] = len(stack)
        stack.append(event)
    return events


def test_trace_of_a_timeline(shop):
    document = json.loads(good("convert", shop, "-f", "chrometrace", "--parked"))
    events = check_trace(document)
    names = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["ph"] == "M"}
    worker = next(tid for tid, name in names.items() if name == "worker-1 (101)")
    seconds = [
        (e["name"], e["depth"], e["ts"] / 1e6, e["dur"] / 1e6) for e in events if e["tid"] == worker
    ]
    assert seconds == [
        ("Thread.run", 0, 0, 10),
        ("handle", 1, 0, 7),
        ("fib", 2, 0, 1),
        ("fib", 3, 0, 1),
        ("Cart.größe", 2, 1, 2),
        ("zlib.compress", 3, 1, 2),
        ("fib", 2, 3, 3),
        ("fib", 3, 3, 3),
        ("acquire", 2, 6, 1),
        ("Queue.get", 1, 7, 3),
    ]
    assert {e["cat"] for e in events if e["name"] == "zlib.compress"} == {"native"}


def test_overlaps_by_rounding_are_cut(tmp_path):
    profile = new_profile()
    add(profile, [("a", "a.py", 1)], wall=1, end=1)
    add(profile, [("b", "a.py", 1)], wall=1, end=1.9)
    path = save(profile, tmp_path / "x.pprof")
    events = check_trace(json.loads(good("convert", path, "-f", "chrometrace")))
    assert [(e["ts"], e["dur"]) for e in events] == [(0, 1e6), (1e6, 0.9e6)]


@pytest.mark.parametrize("kind", ["gecko", "chrometrace"])
def test_no_timeline_without_a_time(tmp_path, kind):
    profile = new_profile()
    profile.types = [("heap-space", "bytes")]
    profile.default_type = "heap-space"
    add(profile, [("a", "a.py", 1)])
    profile.samples[0].values = {"heap-space": 5}
    path = save(profile, tmp_path / "x.pprof")
    assert "speedscope or collapsed" in wrong("convert", path, "-f", kind)


# ------------------------------------------------------------------------------------ pprof


@pytest.mark.parametrize("seed", range(3))
def test_pprof_is_the_profile_again(tmp_path, seed):
    profile = random_profile(seed)
    out = tmp_path / "out.pprof"
    assert good("convert", save(profile, tmp_path / "x.pprof"), "-f", "pprof", "-o", out) == ""
    again = pprof.parse(out.read_bytes())
    assert again.types == profile.types
    assert (again.time_ns, again.duration_ns) == (profile.time_ns, profile.duration_ns)
    assert again.default_type == "cpu-time"

    def sums(one):
        added = {}
        for sample in one.samples:
            key = (tuple(sample.stack), tuple(sorted(sample.labels.items())))
            values = added.setdefault(key, [0] * len(one.types))
            added[key] = [a + sample.values[t] for a, (t, _) in zip(values, one.types)]
        return added

    assert sums(again) == sums(profile)


def test_pprof_keeps_times_and_takes_the_chosen_type(shop):
    done = call("convert", shop, "-f", "pprof", "-t", "wall-time", "--focus", "fib", text=False)
    assert done.returncode == 0
    again = pprof.parse(done.stdout)
    assert again.default_type == "wall-time"
    assert sorted(s.labels["end_timestamp_ns"] for s in again.samples) == [
        START + 1 * SECOND,
        START + 6 * SECOND,
    ]


def test_go_reads_it(tmp_path, shop):
    go = shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")
    assert go, "go is needed (Debian package golang-go)"
    out = tmp_path / "out.pprof"
    good("convert", shop, "-f", "pprof", "-o", out)
    done = subprocess.run(
        [go, "tool", "pprof", "-top", str(out)], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert "Type: cpu-time" in done.stdout
    assert "Duration: 10s, Total samples = 6s (60.00%)" in done.stdout
    assert re.search(r"4s 66\.67% 66\.67% +4s 66\.67%  fib", done.stdout)


# ----------------------------------------------------------------------------------- output


def test_what_parked_threads_take_is_said(shop):
    done = call("convert", shop, "-f", "collapsed", "-t", "wall-time")
    assert "left out 3.000 s of parked threads" in done.stderr
    assert "Queue.get" not in done.stdout
    assert call("convert", shop, "-f", "collapsed", "-t", "wall-time", "--parked").stderr == ""


def test_a_full_disk(tmp_path, shop):
    big = save(random_profile(1, samples=3000), tmp_path / "big.pprof")
    line = wrong("convert", big, "-f", "collapsed", "--parked", "-o", "/dev/full")
    assert "could not be written whole: No space left" in line
    done = call(
        "convert",
        big,
        "-f",
        "collapsed",
        "--parked",
        capture_output=False,
        stdout=open("/dev/full", "w"),
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 2
    assert "could not be written whole: No space left" in done.stderr


def test_a_failed_conversion_leaves_no_file(tmp_path):
    profile = new_profile()
    profile.types = [("heap-space", "bytes")]
    add(profile, [("a", "a.py", 1)])
    profile.samples[0].values = {"heap-space": 5}
    out = tmp_path / "out.json"
    wrong("convert", save(profile, tmp_path / "x.pprof"), "-f", "gecko", "-o", out)
    assert not out.exists()


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["P"], "needs a format"),
        (["P", "-f", "speedscop"], "did you mean speedscope"),
        (["P", "-f", "xml"], "there are collapsed"),
        (["P", "-f", "gecko", "-o", "/no/such/x"], "cannot write /no/such/x"),
        (["-f", "gecko"], "convert FILE"),
        (["P", "-f", "gecko", "-t", "nothing"], "no sample type"),
        (["P", "--formt", "gecko"], "did you mean --format?"),
    ],
)
def test_wrong_use(shop, arguments, expected):
    assert expected in wrong("convert", *[shop if word == "P" else word for word in arguments])
