"""The interface that applications use: start, stop, flush, status.

There is one profiler a process, and it lives in the extension. This module is what only Python can
do: keyword arguments, the logger, the hooks of exit, fork and multiprocessing. Nothing here runs on
a timer. It imports almost nothing, because it runs in every start of every program.
"""

import _thread
import atexit
import os
import sys

from pyrometer import _settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import NoReturn

_INFO = 20  # of the module logging, which is not imported for a line that nobody may want
_WARNING = 30
_MOST_LINES = 64


class _Process:
    """What this process has: the core once it is loaded, and the lines it could not log yet."""

    def __init__(self) -> None:
        self.core: ModuleType | None = None
        self.start_line = ""
        self.owner: Profiler | None = None
        self.lines: list[tuple[int, str]] = []
        self.arguments: dict[str, str] = {}  # of the last start, and what was set since
        self.file: dict[str, str] = {}

    def load(self) -> bool:
        """Loads the core, and hooks exit and fork, once."""
        if self.core is not None:
            return True
        try:
            from pyrometer import _native
        except ImportError as error:
            self.log(_WARNING, f"pyrometer is off: its core does not load in this Python: {error}")
            return False
        self.core = _native
        atexit.register(self.end)
        os.register_at_fork(after_in_child=self.after_fork)
        if hasattr(_native, "pause"):
            os.register_at_fork(before=_native.pause, after_in_parent=_native.unpause)
        _native.listen(lambda: _thread.start_new_thread(self.log_waiting, ()))
        _native.steer(self.steer)
        return True

    def end(self) -> None:
        """The program ends: the last window goes out, and nothing of ours runs after this."""
        assert self.core is not None
        self.core.listen(None)
        self.core.stop(True)
        self.log_waiting()

    def start(self) -> bool:
        """Starts with the settings that are kept; the log says why not."""
        assert self.core is not None
        line = self.core.start(self.arguments, self.file)
        if line is None:
            return False
        self.start_line = line
        self.lines.append((_INFO, line))
        self.watch_multiprocessing()
        return True

    def steer(self, words: list[str]) -> str:
        """What `pyrometer ctl` asks for: start, stop or set, with checked settings. Says what is
        wrong, or "". Whoever calls has the lines logged."""
        assert self.core is not None
        what = words[0]
        changes = dict(word.split("=", 1) for word in words[1:])
        changes = {name.lower(): text for name, text in changes.items()}
        is_running = "identity" in self.core.status()
        if what == "stop" and not is_running:
            return "it is stopped already"
        if what == "start" and is_running:
            return "it runs already"
        before = self.arguments
        self.arguments = {**before, **changes}
        if is_running:
            self.core.stop(True)
        wrong = ""
        if (what == "start" or is_running and what == "set") and not self.start():
            self.lines += self.core.log_take()
            wrong = self.lines[-1][1] if self.lines else "it did not start"
            self.arguments = before
            if is_running:
                self.start()
        if not wrong:
            shown = f" {', '.join(name.upper() for name in changes)}" if changes else ""
            self.lines.append((_INFO, f"pyrometer ctl: {what}{shown}"))
        return wrong

    def after_fork(self) -> None:
        assert self.core is not None
        self.core.resume()
        self.watch_multiprocessing()

    def watch_multiprocessing(self) -> None:
        """Its children end by os._exit and never come to atexit, but they run its finalizers."""
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            try:
                util.register_after_fork(self, _Process.enter_child)
            except AttributeError:
                pass  # its import is not complete: this is no child of it

    def enter_child(self) -> None:
        """In a child of multiprocessing, which has forgotten its parent's finalizers by now."""
        sys.modules["multiprocessing.util"].Finalize(None, self.end, exitpriority=-1000)

    def log(self, level: int, text: str) -> None:
        self.lines.append((level, text))
        self.log_waiting()

    def log_waiting(self) -> None:
        """Gives waiting lines to the logger `pyrometer`."""
        if self.core is not None:
            self.lines += self.core.log_take()
        if "logging" not in sys.modules and all(level <= _INFO for level, _ in self.lines):
            del self.lines[:-_MOST_LINES]
            return  # a start line can wait until the program logs
        try:
            import logging
        except Exception:  # no memory, or no file to spare: they wait
            del self.lines[:-_MOST_LINES]
            return
        lines, self.lines = self.lines, []
        try:
            for level, text in lines:
                logging.getLogger("pyrometer").log(level, "%s", text)
        except Exception:
            pass  # the program's logging is broken: that is not ours to tell


_process = _Process()


def follow_spawns(folder: str) -> None:
    """For the bootstrap in `folder`: multiprocessing's new processes are profiled too."""
    if _process.core is not None:
        _process.core.follow_spawns(os.fsencode(folder))


class Profiler:
    """The profiler of this process.

    Keyword arguments are the settings in lower case (docs/settings.md) and win over the
    environment, which wins over the file of ``config_file``: ``Profiler(service="web",
    sampling_interval="5ms")``. A wrong one is a warning, never an error.
    """

    def __init__(self, **settings: object) -> None:
        self._settings = {
            name: _settings.to_text(value) for name, value in settings.items() if value is not None
        }

    def start(self) -> None:
        """Starts it. If one runs already, that is one line in the log and nothing else. Where
        anything says that ``enabled`` is false, nothing is loaded, and nothing is said."""
        if _settings.environment_is_off() or _settings.is_off(self._settings.get("enabled")):
            return
        path = self._settings.get("config_file") or os.environ.get("PYROMETER_CONFIG_FILE")
        file, problem = _settings.read_file(path) if path else ({}, "")
        if _settings.is_off(file.get("enabled")):
            return
        if problem:
            _process.log(_WARNING, problem)
        from pyrometer._takeover import other_profiler

        if other := other_profiler():
            _process.log(
                _WARNING,
                f"pyrometer is off: {other}'s profiler runs in this process; "
                f"PYROMETER_TAKEOVER={other} lets Pyrometer take its place",
            )
            return
        if not _process.load():
            return
        assert _process.core is not None
        kept = _process.arguments, _process.file
        _process.arguments, _process.file = dict(self._settings), file
        if _process.start():
            _process.owner = self
        else:
            _process.arguments, _process.file = kept
        _process.log_waiting()

    def stop(self, flush: bool = True) -> None:
        """Stops it, after delivering the last window if `flush`. Does nothing if this object did
        not start it."""
        if _process.core is None or _process.owner is not self:
            return
        _process.owner = None
        _process.core.stop(flush)
        _process.log_waiting()

    def flush(self, timeout: float = 10.0) -> bool:
        """Delivers the current window now; True if that was done within `timeout` seconds."""
        if _process.core is None:
            return False
        done: bool = _process.core.flush(timeout)
        _process.log_waiting()
        return done

    def status(self) -> dict[str, object]:
        """What it does, what it costs, what it lost: the facts that also go into each window's
        document, by section."""
        status: dict[str, object] = {}
        if _process.core is not None:
            status.update(_process.core.status())
        status["running"] = "identity" in status
        status["start_line"] = _process.start_line if status["running"] else ""
        if _process.core is not None:
            _process.log_waiting()
        return status

    def __enter__(self) -> "NoReturn":
        raise TypeError(
            "Profiler is for the whole process, not for a block: call start(), and stop() at the "
            "end if it is not to run until the program ends"
        )

    def __exit__(self, *error: object) -> None:
        pass
