"""The flame graph page in a real browser, and whether the checked-in page is what its sources give.

Needs node and Chromium. A missing browser is a failure, never a skip: a page that nobody looked at
is not tested.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import HERE, UI

# The first test waits for the whole run in the browser.
pytestmark = pytest.mark.timeout(420)


def node(*arguments: str, timeout: int = 300) -> subprocess.CompletedProcess[str]:
    program = shutil.which("node")
    assert program, "no node: install the package nodejs (20.19 or newer)"
    return subprocess.run(
        [program, *arguments], cwd=UI, capture_output=True, text=True, timeout=timeout, check=False
    )


def check_names() -> list[str]:
    """Names of the checks, read without a browser or any package."""
    inside = False
    names = []
    for line in (HERE / "checks.mjs").read_text(encoding="utf-8").splitlines():
        inside = inside or line == "const checks = {"
        if inside and line.startswith('    async "'):
            names.append(line.split('"')[1])
        if inside and line == "};":
            break
    assert names, "no check found: their form has changed"
    return names


@pytest.fixture(scope="session")
def results(packages: None) -> dict[str, dict[str, object]]:
    done = node(str(HERE / "checks.mjs"))
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, f"the checks did not run:\n{done.stdout}{done.stderr}"
    return {result["name"]: result for result in map(json.loads, lines)}


def test_every_check_is_listed(packages: None) -> None:
    listed = node(str(HERE / "checks.mjs"), "--list").stdout.splitlines()
    assert listed == check_names()
    assert len(listed) > 20


@pytest.mark.parametrize("name", check_names())
def test_page(name: str, results: dict[str, dict[str, object]]) -> None:
    assert name in results, "the run ended before this check"
    assert results[name]["ok"], results[name]["detail"]


def test_missing_browser_is_a_failure(packages: None) -> None:
    environment = {**os.environ, "CHROMIUM": "/nonexistent/chromium"}
    done = subprocess.run(
        ["node", str(HERE / "checks.mjs")],
        cwd=UI,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "no Chromium at /nonexistent/chromium" in done.stderr


def test_sources_pass_their_own_checks(packages: None) -> None:
    npm = shutil.which("npm")
    assert npm
    done = subprocess.run(
        [npm, "run", "check"], cwd=UI, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_built_page_is_current(packages: None, tmp_path: Path) -> None:
    vite = UI / "node_modules" / "vite" / "bin" / "vite.js"
    done = node(str(vite), "build", "--outDir", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    built = tmp_path / "flamegraph.html"
    assert filecmp.cmp(built, UI / "dist" / "flamegraph.html", shallow=False), (
        "ui/dist/flamegraph.html is not what its sources build: run `npm run build` in ui/"
    )
