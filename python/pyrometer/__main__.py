"""The `pyrometer` program: hands over to the one written in C, which keeps the process."""

import os
import sys


def _describe() -> bytes:
    """What only Python knows, for `config` and `doctor`, as JSON: this Python, whether the core
    loads in it, other profilers that it has, and the settings in the file."""
    import importlib.metadata
    import json
    import platform

    from pyrometer._settings import read_file

    core = ""
    try:
        import pyrometer._native  # noqa: F401
    except ImportError as error:
        core = str(error)
    if "free-threading" in sys.version:
        core = core or "free-threaded builds are not supported"
    others = []
    for name in ("ddtrace", "pyroscope-io", "memray", "scalene", "yappi"):
        try:
            others.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    path = os.environ.get("PYROMETER_CONFIG_FILE")
    if sys.argv[-1].isdigit():  # of the process that doctor is to look at
        path = _path_of(sys.argv[-1])
    file, problem = read_file(path) if path else ({}, "")
    return json.dumps(
        {
            "python": platform.python_version(),
            "core": core,
            "others": ", ".join(others),
            "file": file,
            "file_problem": problem,
        },
        ensure_ascii=False,
    ).encode("utf-8", "surrogateescape")


def _path_of(pid: str) -> str:
    """The file of settings of another process, "" where none can be found."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
        folder = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""
    name = b"PYROMETER_CONFIG_FILE="
    given = next((text for text in variables if text.startswith(name)), name)[len(name) :]
    return os.path.join(folder, os.fsdecode(given)) if given else ""


def main() -> None:
    package = os.path.dirname(os.path.abspath(__file__))
    program = os.path.join(package, "_bin", "pyrometer")
    os.environ["PYROMETER_PACKAGE"] = package
    if sys.argv[1:2] in (["config"], ["doctor"]):
        os.environb[b"PYROMETER_ENTRY"] = _describe()
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"pyrometer: cannot run {program}: {error.strerror}; install the package again")


if __name__ == "__main__":
    main()
