"""Files that are no profile, or half of one: one line that says what to do, exit code 2."""

import gzip
import os
import random
import re
import subprocess

import pprof
import pytest
from conftest import call, good, save, shop_profile, wrong

COMMANDS = [
    ["report"],
    ["list", "fib"],
    ["flamegraph", "-o", "-"],
    ["convert", "-f", "speedscope"],
]


@pytest.fixture(params=COMMANDS, ids=lambda words: words[0])
def command(request):
    return request.param


def test_missing(command, tmp_path):
    assert "there is no file" in wrong(*command, tmp_path / "no.pprof")


def test_empty(command, tmp_path):
    path = tmp_path / "empty.pprof"
    path.touch()
    assert "is empty" in wrong(*command, path)


def test_truncated(command, shop):
    whole = shop.read_bytes()
    for length in (3, 10, len(whole) // 2, len(whole) - 1):
        shop.write_bytes(whole[:length])
        line = wrong(*command, shop)
        assert f"it ends after {length} bytes, the file is truncated" in line
        assert "check the disk or the copy" in line


def test_every_cut_of_an_uncompressed_profile(tmp_path):
    """A cut may happen to be a valid message; it must be shown or refused, never crash."""
    whole = pprof.write(shop_profile(), compressed=False)
    path = tmp_path / "cut.pprof"
    for length in range(1, len(whole), 13):
        path.write_bytes(whole[:length])
        done = call("report", path)
        assert done.returncode in (0, 2), (length, done)
        assert len(done.stderr.splitlines()) == (1 if done.returncode == 2 else 0)


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes(command, tmp_path, seed):
    path = tmp_path / "random.pprof"
    noise = random.Random(seed).randbytes(2000)
    for data in (noise, gzip.compress(noise)):
        path.write_bytes(data)
        assert "cannot read" in wrong(*command, path)


@pytest.mark.parametrize("text", ["hello\n", "#!/bin/sh\n", '{"a": 1}', "\x7fELF\0\0\0\0"])
def test_other_files(command, tmp_path, text):
    path = tmp_path / "other.pprof"
    path.write_text(text)
    assert "cannot read" in wrong(*command, path)


def test_damaged_profiles_never_crash(tmp_path):
    whole = pprof.write(shop_profile(), compressed=False)
    path = tmp_path / "damaged.pprof"
    source = random.Random(7)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(source.randrange(1, 4)):
            damaged[source.randrange(len(damaged))] = source.randrange(256)
        path.write_bytes(damaged)
        for words in (["report", "--tree"], ["flamegraph", "-o", "-"], ["convert", "-f", "gecko"]):
            done = call(*words, path, text=False)
            assert done.returncode in (0, 2), done


def test_unreadable(command):
    """A file whose reading fails."""
    assert "cannot read /proc/self/mem: Input/output error" in wrong(*command, "/proc/self/mem")


def test_not_permitted(command, shop):
    """Root may read everything unless it gives that power up."""
    shop.chmod(0)
    words = [os.environ.get("PYROMETER_PROGRAM", "pyrometer"), *command, shop]
    if os.geteuid() == 0:
        words = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert re.fullmatch(r"pyrometer: cannot read .*: Permission denied\n", done.stderr)


def test_a_folder_without_profiles(command, tmp_path):
    (tmp_path / "notes.txt").touch()
    (tmp_path / "pprof").touch()
    (tmp_path / ".hidden.pprof").touch()
    assert "holds no profiles (*.pprof)" in wrong(*command, tmp_path)


def test_a_bad_file_in_a_folder_does_not_hide_the_good_ones(tmp_path):
    good_path = save(shop_profile(), tmp_path / "b.pprof")
    for name in ("a.pprof", "c.pprof"):
        (tmp_path / name).write_bytes(good_path.read_bytes()[:100])
    done = call("report", tmp_path)
    assert done.returncode == 0
    assert "1 file" in done.stdout and "6.000 s" in done.stdout
    assert [line.split()[3].rstrip(":") for line in done.stderr.splitlines()] == [
        str(tmp_path / "a.pprof"),
        str(tmp_path / "c.pprof"),
    ]


def test_a_folder_of_bad_files_is_an_error(command, tmp_path):
    (tmp_path / "a.pprof").write_bytes(b"x")
    assert "cannot read" in wrong(*command, tmp_path)


def test_a_bad_file_that_was_named_is_an_error(shop, tmp_path):
    bad = tmp_path / "bad.pprof"
    bad.write_bytes(b"x")
    assert "bad.pprof" in wrong("report", shop, bad)


def test_a_bomb_is_refused(tmp_path):
    """Two GiB of zeros in two MiB."""
    path = tmp_path / "bomb.pprof"
    zeros = bytes(1 << 20)
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"\x32\x80\x80\x80\x80\x08")  # a string of 2 GiB
        for _ in range(2048):
            file.write(zeros)
    line = wrong("report", path)
    assert "cannot read" in line


def test_a_profile_without_samples(command, tmp_path):
    profile = shop_profile()
    profile.samples = []
    path = save(profile, tmp_path / "x.pprof")
    if command[0] == "list":
        assert "no function" in wrong(*command, path)
    elif command[0] == "report":
        assert "Shown      cpu-time, 0 ns" in good(*command, path)
    else:
        good(*command, path)


def test_a_profile_without_types(command, tmp_path):
    path = tmp_path / "x.pprof"
    path.write_bytes(pprof.write(pprof.Profile(types=[])))
    assert "no sample types" in wrong(*command, path)


def test_a_pipe_is_read(shop):
    read_end, write_end = os.pipe()
    os.write(write_end, shop.read_bytes())
    os.close(write_end)
    done = call("report", f"/dev/fd/{read_end}", pass_fds=[read_end])
    os.close(read_end)
    assert done.returncode == 0 and "6.000 s" in done.stdout


LARGEST, SMALLEST = 2**63 - 1, -(2**63)


@pytest.mark.parametrize("time_ns", [SMALLEST, LARGEST])
@pytest.mark.parametrize("value", [SMALLEST, LARGEST])
@pytest.mark.parametrize("end", [None, SMALLEST, LARGEST])
def test_numbers_at_the_ends_of_their_range(command, tmp_path, time_ns, value, end):
    """Sums and differences of such numbers overflow; they must end in a number, not in a trap."""
    profile = shop_profile()
    profile.time_ns, profile.duration_ns = time_ns, LARGEST
    for sample in profile.samples:
        sample.values = dict.fromkeys(sample.values, value)
        sample.labels["thread native id"] = value
        sample.stack = [(name, file, value) for name, file, _ in sample.stack]
        del sample.labels["end_timestamp_ns"]
        if end is not None:
            sample.labels["end_timestamp_ns"] = end
    document = f'{{"losses": {{"torn": {LARGEST}}}, "tick": {{"x_ns": {SMALLEST}}}}}'
    paths = [save(profile, tmp_path / f"{index}.pprof", document) for index in range(2)]
    formats = ["speedscope", "gecko", "chrometrace", "collapsed", "pprof"]
    lines = [command] if command[0] != "convert" else [["convert", "-f", name] for name in formats]
    if command[0] == "report":
        lines += [["report", "--tree"], ["report", "--by", "state"], ["diff"]]
    for words in lines:
        done = call(*words, *paths, text=False)
        assert done.returncode in (0, 2), done
        assert b"runtime error" not in done.stderr


@pytest.mark.parametrize("words", [["flamegraph"], ["convert", "-f", "collapsed"]])
def test_what_is_read_is_not_written_over(tmp_path, shop, words):
    whole = shop.read_bytes()
    link = tmp_path / "link.pprof"
    link.symlink_to(shop)
    for out in shop, link:
        line = wrong(*words, shop, "-o", out)
        assert "is one of the profiles that are read; choose another place with -o" in line
        assert shop.read_bytes() == whole


def test_a_profile_given_twice_counts_once(tmp_path, shop):
    once = good("report", "--json", shop)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "same.pprof").symlink_to(shop)
    for paths in [shop, shop], [shop, tmp_path / "folder"]:
        done = call("report", "--json", *paths)
        assert (done.returncode, done.stdout) == (0, once)
        assert "was given twice; it counts once" in done.stderr


def test_a_full_device_says_what_is_wrong(shop):
    for words in ["flamegraph"], ["convert", "-f", "speedscope"]:
        line = wrong(*words, shop, "-o", "/dev/full")
        assert "could not be written whole" in line and "Success" not in line
