"""Found by Python before the program in processes started by `pyrometer run`.

It starts the profiler, leaves no trace of itself, and lets the program's own sitecustomize, if
there is one, run as if this file did not exist. Whatever fails here is one line, never the program.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _leave() -> None:
    """Takes this folder from the module path, and from that of children unless they are wanted."""
    sys.path[:] = [folder for folder in sys.path if folder != _HERE]
    wanted = os.environ.get("PYROMETER_SUBPROCESSES", "").strip().lower()
    if wanted in ("1", "true", "yes", "on"):
        return
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = os.pathsep.join(folder for folder in folders if folder != _HERE)
    if others:
        os.environ["PYTHONPATH"] = others
    else:
        os.environ.pop("PYTHONPATH", None)


def _start() -> None:
    try:
        if not os.environ.get("PYROMETER_TAKEOVER"):
            from pyrometer import _settings, _takeover

            # Who runs a program under Pyrometer does not want ddtrace's profiler as well.
            if not _settings.environment_is_off():
                _takeover.install(["ddtrace"])
        import pyrometer.auto  # noqa: F401

        profiler = sys.modules.get("pyrometer.profiler")
        if profiler is not None:  # switched on
            profiler.follow_spawns(_HERE)
    except ModuleNotFoundError:
        print(
            f"pyrometer: this Python has no package pyrometer, so it is not profiled; install it "
            f"there: {sys.executable} -m pip install pyrometer",
            file=sys.stderr,
        )
    except Exception as error:
        print(f"pyrometer: not profiled, the start failed: {error!r}", file=sys.stderr)
    os.environ.pop("_PYROMETER_PARENT", None)


def _run_next() -> None:
    """Imports the sitecustomize that this one stands in front of. Its errors are the program's."""
    ours = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if ours is not None:
            sys.modules.setdefault("sitecustomize", ours)


_leave()
_start()
_run_next()
