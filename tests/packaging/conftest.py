"""What the packaging tests share: an archive of the sources, the wheel that it gives, and a bare
environment with that wheel, all of the interpreter that runs the tests.

The sources are copied first: building must need nothing that the archive does not have, and leave
nothing behind. The wheel is built in isolation, as pip does it for a user, with warnings as errors.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHEEL_SECONDS = 900  # the first test waits for a wheel to be built, on a busy machine for minutes
OURS = ("PYROMETER_", "DD_", "OTEL_")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(WHEEL_SECONDS))


def clean(**settings):
    """The environment of the tests without any settings, and not in any virtual environment."""
    dropped = (*OURS, "PYTHONPATH", "VIRTUAL_ENV")
    environment = {key: text for key, text in os.environ.items() if not key.startswith(dropped)}
    return {**environment, **settings}


def succeed(*command, **settings):
    """Runs the command, which must succeed; its standard output."""
    settings.setdefault("env", clean())
    done = subprocess.run(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        **settings,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@dataclass
class Package:
    sdist: Path
    wheel: Path
    build: Path  # where the wheel was built: the same binaries, not stripped
    python: Path  # of an environment that holds the wheel and nothing else
    folder: Path  # the installed package

    @property
    def program(self):
        """The command that stands on PATH in the environment."""
        return self.python.parent / "pyrometer"

    @property
    def binaries(self):
        (native,) = self.folder.glob("_native.*.so")
        return [native, self.folder / "_bin" / "pyrometer"]


def copy_of_sources(folder):
    """The checkout without what tools and builds left in it."""
    left_out = shutil.ignore_patterns(
        "build", "node_modules", ".git", ".*_cache", "__pycache__", "pyrometer-profiles"
    )
    return shutil.copytree(ROOT, folder, ignore=left_out)


@pytest.fixture(scope="session")
def sdist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    source = copy_of_sources(folder / "checkout")
    script = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    succeed(sys.executable, "-c", script, folder, cwd=source)
    (archive,) = folder.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="session")
def package(sdist, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = folder / "build"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    options = [f"build-dir={build}", "cmake.define.PYR_WERROR=ON"]
    flags = [f"--config-settings={option}" for option in options]
    succeed(*pip, "wheel", "--no-deps", *flags, "--wheel-dir", folder, sdist)
    (wheel,) = folder.glob("*.whl")
    # A path with a space and a letter beyond ASCII: both occur, and both have broken programs.
    environment = tmp_path_factory.mktemp("environment") / "b é"
    succeed(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    # Nothing from any index, and no compiler: what is not in the wheel is not there.
    install = ["--python", python, "install", "--no-index", wheel]
    succeed(*pip, *install, env=clean(PATH=str(python.parent)))
    where = "import os, pyrometer; print(os.path.dirname(pyrometer.__file__))"
    return Package(sdist, wheel, build, python, Path(succeed(python, "-c", where).strip()))


def names_in(archive):
    """Names of the files in a wheel or, without its first folder, in a source archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return {name for name in file.namelist() if not name.endswith("/")}
    with tarfile.open(archive) as file:
        return {member.name.partition("/")[2] for member in file.getmembers() if member.isfile()}
