"""Small Go programs that hold a real client or server, built once and kept between runs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

GO = (1, 26)


def build(sources: Path, folder: Path) -> Path:
    """The program of a folder of sources, made in `folder`; skips where it cannot be made. The
    first time takes minutes."""
    go = shutil.which("go")
    command = ["go", "env", "GOVERSION"]
    version = (
        subprocess.run(command, capture_output=True, text=True, check=False).stdout if go else ""
    )
    if not version or tuple(map(int, version.strip().removeprefix("go").split(".")[:2])) < GO:
        pytest.skip(f"Go {GO[0]}.{GO[1]} is needed")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pyrometer"
    program = cache / sources.name
    files = [*sources.glob("*.go"), *sources.glob("go.*")]
    if not program.exists() or any(
        file.stat().st_mtime > program.stat().st_mtime for file in files
    ):
        cache.mkdir(parents=True, exist_ok=True)
        made = folder / sources.name
        command = ["go", "build", "-buildvcs=false", "-o", str(made), "."]
        done = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"{sources.name} does not build here: {done.stderr[-300:]}")
        shutil.move(made, program)
    return program
