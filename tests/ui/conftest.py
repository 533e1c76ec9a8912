"""What the tests of the pages share: the packages of ui/, and modules of other test folders."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent
UI = HERE.parent.parent / "ui"


@pytest.fixture(scope="session")
def packages() -> None:
    needed = ("playwright-core", "speedscope")
    if not all((UI / "node_modules" / name).is_dir() for name in needed):
        npm = shutil.which("npm")
        assert npm, "no npm: install the package npm"
        subprocess.run([npm, "ci"], cwd=UI, check=True, capture_output=True, timeout=600)


def shared(folder: str, name: str) -> ModuleType:
    """The conftest.py of another test folder: such a module has no name to import it by."""
    path = HERE.parent / folder / "conftest.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
