"""pyrometer run: what the command gets, and that it is the command that runs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import call, wrong

SHOW = """
import json, os, sys
names = ["PYTHONPATH", "PYROMETER_ENABLED", "PYROMETER_SUBPROCESSES"]
print(json.dumps({"pid": os.getpid(), "arguments": sys.argv[1:],
                  "environment": {name: os.environ.get(name) for name in names}}))
"""


def c_program():
    """The program in C: the Python entry point would set the package itself."""
    given = os.environ.get("PYROMETER_PROGRAM", "pyrometer")
    for folder in [""] if "/" in given else os.environ["PATH"].split(":"):
        file = Path(folder, given)
        if file.is_file():
            if file.read_bytes()[:4] == b"\x7fELF":
                return str(file)
            break
    import pyrometer

    return str(Path(pyrometer.__file__).parent / "_bin" / "pyrometer")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package folder whose bootstrap module leaves a mark."""
    monkeypatch.setenv("PYROMETER_PROGRAM", c_program())
    bootstrap = tmp_path / "package" / "_bootstrap"
    bootstrap.mkdir(parents=True)
    (bootstrap / "sitecustomize.py").write_text("import sys; sys.bootstrapped = True\n")
    return tmp_path / "package"


def run(package, *arguments, **environment):
    environment["PYROMETER_PACKAGE"] = str(package)
    return call("run", *arguments, environment=environment)


def show(package, *arguments, **environment):
    done = run(package, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_environment_of_the_command(package):
    shown = show(package, sys.executable, "-c", SHOW, "-x", "--", "--help", "a b")
    assert shown["arguments"] == ["-x", "--", "--help", "a b"]
    assert shown["environment"] == {
        "PYTHONPATH": f"{package}/_bootstrap",
        "PYROMETER_ENABLED": None,
        "PYROMETER_SUBPROCESSES": None,
    }
    off = show(package, sys.executable, "-c", SHOW, PYROMETER_ENABLED="false")
    assert off["environment"]["PYROMETER_ENABLED"] == "false"


def test_subprocesses(package):
    shown = show(package, "--subprocesses", "--", sys.executable, "-c", SHOW)
    assert shown["environment"]["PYROMETER_SUBPROCESSES"] == "true"
    shown = show(package, sys.executable, "-c", SHOW, PYROMETER_SUBPROCESSES="yes")
    assert shown["environment"]["PYROMETER_SUBPROCESSES"] == "yes"


def test_a_python_path_is_kept_behind_ours(package):
    shown = show(package, sys.executable, "-c", SHOW, PYTHONPATH="/a:/b")
    assert shown["environment"]["PYTHONPATH"] == f"{package}/_bootstrap:/a:/b"
    shown = show(package, sys.executable, "-c", SHOW, PYTHONPATH="")
    assert shown["environment"]["PYTHONPATH"] == f"{package}/_bootstrap"


def test_the_bootstrap_module_is_found(package):
    done = run(package, sys.executable, "-c", "import sys; print(sys.bootstrapped)")
    assert done.stdout == "True\n", done.stderr


def test_the_process_is_the_commands_own(package):
    environment = {**os.environ, "PYROMETER_PACKAGE": str(package)}
    with subprocess.Popen(
        [c_program(), "run", sys.executable, "-c", SHOW],
        stdout=subprocess.PIPE,
        env=environment,
    ) as process:
        assert json.loads(process.stdout.read())["pid"] == process.pid


@pytest.mark.parametrize("code", [0, 1, 2, 77])
def test_the_exit_code_is_the_commands_own(package, code):
    assert run(package, "sh", "-c", f"exit {code}").returncode == code


def test_a_signal_ends_the_command(package):
    assert run(package, "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


def test_the_package_is_found_beside_the_program(tmp_path):
    """Without PYROMETER_PACKAGE: <package>/_bin/pyrometer."""
    package = tmp_path / "package"
    (package / "_bin").mkdir(parents=True)
    (package / "_bootstrap").mkdir()
    (package / "_bootstrap" / "sitecustomize.py").touch()
    program = package / "_bin" / "pyrometer"
    program.write_bytes(Path(c_program()).read_bytes())
    program.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYROMETER_")}
    done = subprocess.run(
        [program, "run", sys.executable, "-c", SHOW], env=environment, capture_output=True
    )
    assert json.loads(done.stdout)["environment"]["PYTHONPATH"] == f"{package}/_bootstrap"


def test_command_not_found(package):
    done = run(package, "no-such-command-anywhere")
    assert done.returncode == 127
    assert "cannot start no-such-command-anywhere: No such file or directory" in done.stderr


def test_command_not_executable(package, tmp_path):
    file = tmp_path / "script"
    file.write_text("x")
    for target in (file, tmp_path):
        done = run(package, target)
        assert done.returncode == 126
        assert "Permission denied" in done.stderr


def test_no_package(tmp_path, monkeypatch):
    monkeypatch.setenv("PYROMETER_PROGRAM", c_program())
    line = wrong("run", "true", environment={"PYROMETER_PACKAGE": str(tmp_path)})
    assert "sitecustomize.py is not readable" in line


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ([], "run [--] CMD"),
        (["--subproceses", "true"], "did you mean --subprocesses?"),
        (["--subprocesses"], "run [--] CMD"),
    ],
)
def test_wrong_use(arguments, expected):
    assert expected in wrong("run", *arguments)
