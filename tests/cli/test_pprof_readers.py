"""What the C codec writes, read by Go's pprof and by the Python twin; what Go refuses is refused.

A profile goes in as the Python twin writes it, through parser, merge and writer of the C codec
(`pyrometer convert -f pprof`), and out to `go tool pprof`, which is in Debian's golang-go.
"""

import gzip
import os
import random
import re
import subprocess

import pprof
import pytest
from conftest import SECOND, add, call, good, new_profile, random_profile, save, shop_profile


def go_pprof(folder, *arguments):
    """Runs `go tool pprof`, as the reference reader that it is."""
    path = f"{os.environ['PATH']}:/usr/local/go/bin"
    environment = dict(os.environ, PATH=path, PPROF_TMPDIR=str(folder))
    return subprocess.run(
        ["go", "tool", "pprof", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )


def convert(*files, output):
    good("convert", "-f", "pprof", "--parked", "-o", output, *files)
    return output


def by_function(profile, name):
    """Sums by function, without the frame that the program gives to samples without a stack."""
    sums = profile.by_function(name)
    sums.pop("<no stack>", None)
    return sums


def go_raw(path):
    """The dump of Go's reader as data: types, samples (values, names leaf first, labels)."""
    done = go_pprof(path.parent, "-raw", path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    types_line = lines[lines.index("Samples:") + 1]
    locations = {}
    for line in lines[lines.index("Locations") + 1 : lines.index("Mappings")]:
        match = re.match(r"\s*(\d+): 0x[0-9a-f]+ M=\d+ (.*) (\S*):(-?\d+)(:\d+)? s=", line)
        assert match, line
        locations[int(match[1])] = match[2]
    samples = []
    for line in lines[lines.index(types_line) + 1 : lines.index("Locations")]:
        match = re.match(r"((?:\s*-?\d+)+):((?: \d+)*) ?$", line)
        if match:
            values = [int(value) for value in match[1].split()]
            stack = [locations[int(identity)] for identity in match[2].split()]
            samples.append((values, stack, {}))
        else:
            for key, value in re.findall(r"([a-z_ ]+?):\[(.*?)\](?: |$)", line.strip()):
                samples[-1][2][key.strip()] = value
    return types_line.split(), samples, done.stdout


def test_go_reads_every_sample(tmp_path):
    profile = shop_profile()
    out = convert(save(profile, tmp_path / "in.pprof"), output=tmp_path / "out.pprof")
    types, samples, _ = go_raw(out)
    assert types == [
        "cpu-time/nanoseconds[dflt]",
        "cpu-samples/count",
        "wall-time/nanoseconds",
        "wall-samples/count",
    ]

    def key(values, stack, labels):
        return (
            tuple(values),
            tuple(stack),
            labels["thread name"],
            labels.get("state"),
            str(labels.get("end_timestamp_ns")),
        )

    expected = [
        key(s.values.values(), [name for name, _, _ in s.stack], s.labels) for s in profile.samples
    ]
    found = [
        key(values, stack, {k: v.split()[0] for k, v in labels.items()})
        for values, stack, labels in samples
    ]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("seed", range(3))
def test_go_counts_the_same(tmp_path, seed):
    """Totals of every function as Go's -top computes them, against the Python twin."""
    profile = random_profile(seed)
    out = convert(save(profile, tmp_path / "in.pprof"), output=tmp_path / "out.pprof")
    for name in ("cpu-time", "wall-samples"):
        done = go_pprof(
            tmp_path, "-top", "-cum", "-nodecount=1000", "-nodefraction=0", "-edgefraction=0",
            "-trim=false", "-functions", "-unit=ns", f"-sample_index={name}", out,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        rows = re.findall(
            r"^\s*(\d+)(?:ns)?\s+\S+%\s+\S+%\s+(\d+)(?:ns)?\s+\S+%\s+(.*)$", done.stdout, re.M
        )
        found = {}
        for own, cumulative, function in rows:
            found[function] = (int(own), int(cumulative))
        found.pop("<unknown>", None)  # samples without a stack
        expected = {f: sums for f, sums in profile.by_function(name).items() if any(sums)}
        assert len(found) > 10
        assert found == expected


def test_headers_reach_go(tmp_path):
    profile = shop_profile()
    out = convert(save(profile, tmp_path / "in.pprof"), output=tmp_path / "out.pprof")
    raw = go_raw(out)[2]
    assert "PeriodType: cpu-time nanoseconds" in raw
    assert "Period: 10000000" in raw
    assert "Time: 2025-11-29 22:00:00" in raw
    assert "Duration: 10s" in raw
    assert "window 1 of pyrometer" in go_pprof(tmp_path, "-comments", out).stdout
    top = go_pprof(tmp_path, "-top", out).stdout
    assert "File: python3" in top
    assert "Type: cpu-time" in top  # default_sample_type, although it is not the last


def test_a_label_of_zero_survives_go(tmp_path):
    profile = new_profile(main_binary="/usr/bin/python3")
    add(profile, [("f", "/app/a.py", 1)], cpu=1, native_id=0)
    out = convert(save(profile, tmp_path / "in.pprof"), output=tmp_path / "out.pprof")
    _, samples, _ = go_raw(out)
    assert samples[0][2]["thread native id"].split()[0] == "0"
    again = go_pprof(tmp_path, "-proto", f"-output={tmp_path}/go.pprof", out)
    assert again.returncode == 0, again.stderr
    labels = pprof.parse((tmp_path / "go.pprof").read_bytes()).samples[0].labels
    assert labels["thread native id"] == 0


def test_what_go_writes_is_read(tmp_path):
    """Go's own encoding, with its ids, order and packing, gives the same numbers."""
    profile = random_profile(7)
    source = save(profile, tmp_path / "in.pprof")
    assert go_pprof(tmp_path, "-proto", f"-output={tmp_path}/go.pprof", source).returncode == 0
    out = convert(tmp_path / "go.pprof", output=tmp_path / "out.pprof")
    found = pprof.parse(out.read_bytes())
    for name, _ in profile.types:
        assert by_function(found, name) == by_function(profile, name)
        assert found.total(name) == profile.total(name)


def test_merging_equals_gos(tmp_path):
    files = [save(random_profile(seed), tmp_path / f"{seed}.pprof") for seed in range(4)]
    done = go_pprof(tmp_path, "-proto", f"-output={tmp_path}/go.pprof", *files)
    assert done.returncode == 0, done.stderr
    theirs = pprof.parse((tmp_path / "go.pprof").read_bytes())
    ours = pprof.parse(convert(*files, output=tmp_path / "ours.pprof").read_bytes())
    assert ours.types == theirs.types
    assert ours.time_ns == theirs.time_ns
    assert ours.duration_ns == theirs.duration_ns == 40 * SECOND
    for name, _ in ours.types:
        assert by_function(ours, name) == by_function(theirs, name)


def test_verdicts_equal_gos(tmp_path):
    """Small damage anywhere in the message: refused here if and only if Go refuses it.

    Two differences are allowed. Numbers of more than 64 bits are refused here alone, groups are
    skipped here alone; neither is pprof. Damage that only changes text is no damage.
    """
    profile = new_profile(main_binary="/usr/bin/python3", comments=["c"])
    add(profile, [("f", "/app/a.py", 1), ("g", "/app/a.py", 2)], cpu=1, wall=1, state="io", end=1)
    message = pprof.write(profile, compressed=False)
    source = random.Random(1)
    refused = 0
    for trial in range(40):
        damaged = bytearray(message)
        at = source.randrange(len(message))
        damaged[at] ^= 1 << source.randrange(7)
        path = tmp_path / f"{trial}.pprof"
        path.write_bytes(gzip.compress(bytes(damaged)))
        go = go_pprof(tmp_path, "-raw", path)
        ours = call("convert", "-f", "pprof", "-o", tmp_path / "out.pprof", path)
        assert ours.returncode in (0, 2)
        refused += ours.returncode == 2
        if (go.returncode == 0) != (ours.returncode == 0):
            pytest.fail(f"byte {at}: go {go.stderr!r}, here {ours.stderr!r}")
    assert 5 < refused < 40
