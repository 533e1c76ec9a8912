import subprocess
import sys
from pathlib import Path

import pytest
from harness import Place

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture(scope="session")
def packages():
    """The folder of an environment with all servers."""
    command = [TOOLS / "setup_servers.sh", sys.executable]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.splitlines()[-1])


@pytest.fixture
def place(tmp_path, packages):
    return Place(tmp_path, packages)
