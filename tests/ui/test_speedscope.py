"""speedscope, the program itself, opens what we write and shows its names and numbers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HERE, shared

pytestmark = pytest.mark.timeout(300)

cli = shared("cli", "profiles")  # what the tests of `pyrometer convert` have


def speedscope(*files: Path) -> list[dict]:
    done = subprocess.run(
        ["node", str(HERE / "speedscope.mjs"), *map(str, files)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def seconds(text: str) -> float:
    """speedscope's word for a time, as "2.00s (33%)"."""
    number, unit = re.match(r"([\d.,]+)(ns|µs|ms|s)\b", text).groups()
    return float(number.replace(",", "")) * {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1}[unit]


def by_function(shown: dict) -> dict[str, tuple[float, float]]:
    """Self and total, as pprof.by_function has them."""
    found = shown["functions"].items()
    return {name: (seconds(own), seconds(total)) for name, (total, own) in found}


def expected(samples: list, kind: str) -> dict[str, tuple[float, float]]:
    profile = cli.new_profile()
    profile.samples = samples
    sums = profile.by_function(kind).items()
    return {
        name: (own / cli.SECOND, total / cli.SECOND) for name, (own, total) in sums if own or total
    }


def test_the_sums_of_every_function(packages: None, tmp_path: Path) -> None:
    profile = cli.shop_profile()
    pprof = cli.save(profile, tmp_path / "shop.pprof")
    files = [pprof]
    for kind in ("cpu-time", "wall-time"):
        files.append(tmp_path / f"{kind}.speedscope.json")
        convert = ["convert", "-f", "speedscope", "--parked", "--type", kind]
        cli.good(*convert, "-o", files[-1], pprof)
    as_pprof, cpu, wall = speedscope(*files)
    assert [as_pprof["problems"], cpu["problems"], wall["problems"]] == [[], [], []]

    assert by_function(as_pprof) == expected(profile.samples, "cpu-time")
    worker = [s for s in profile.samples if s.labels["thread name"] == "worker-1"]
    assert cpu["shown"].startswith("worker-1 (101): cpu-time")
    assert by_function(cpu) == expected(worker, "cpu-time")
    assert cpu["profiles"] == wall["profiles"] == {
        "worker-1 (101): cpu-time": "6.00s",
        "worker-1 (101): cpu-samples": "600",
        "worker-1 (101): wall-time": "10.00s",
        "worker-1 (101): wall-samples": "1,000",
        "MainThread (100): wall-time": "10.00s",
        "MainThread (100): wall-samples": "1,000",
    }  # fmt: skip
    assert wall["shown"].startswith("worker-1 (101): wall-time")
    assert by_function(wall) == expected(worker, "wall-time")


PROGRAM = """
import pyrometer.auto, time
def spin():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        sum(range(1000))
spin()
"""


def test_what_the_agent_wrote(packages: None, tmp_path: Path) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYROMETER_", "DD_"))}
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=clean | {"PYROMETER_OUTPUT_PPROF": str(tmp_path / "app")},
        cwd=tmp_path,
        check=True,
        timeout=120,
    )
    (file,) = tmp_path.glob("app.*.pprof")
    converted = tmp_path / "app.speedscope.json"
    cli.good("convert", "-f", "speedscope", "-o", converted, file)
    for shown in speedscope(file, converted):
        assert shown["problems"] == []
        assert {"spin", "<module>"} <= shown["functions"].keys()


def test_what_it_refuses_is_noticed(packages: None, tmp_path: Path) -> None:
    """Else the tests above would prove little."""
    files = [tmp_path / "unknown.json", tmp_path / "broken.speedscope.json"]
    for file in files:
        file.write_text('{"a": 1}', encoding="utf-8")
    unknown, broken = speedscope(*files)
    assert unknown["problems"] and broken["problems"]
