import subprocess
import sys
from pathlib import Path

import pytest
from harness import Place

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture(scope="session")
def packages():
    """The folder of an environment with all servers."""
    interpreter = sys._base_executable  # so that all checkouts share it
    done = subprocess.run(
        [TOOLS / "setup_servers.sh", interpreter], check=True, stdout=subprocess.PIPE, text=True
    )
    return Path(done.stdout.splitlines()[-1])


@pytest.fixture
def place(tmp_path, packages):
    return Place(tmp_path, packages)
