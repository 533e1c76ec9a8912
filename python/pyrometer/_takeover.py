"""Takes the place of other profilers that the program starts, as PYROMETER_TAKEOVER says.

`ddtrace`: the module `ddtrace.profiling.profiler` becomes one whose Profiler is Pyrometer, so
`import ddtrace.profiling.auto`, `ddtrace.profiling.Profiler()` and `DD_PROFILING_ENABLED` under
ddtrace-run start Pyrometer. Nothing else of ddtrace is touched: it traces as before. `pyroscope`:
`pyroscope.configure` and what belongs to it. Without the variable, none of this is ever imported.
"""

import os
import sys

from pyrometer import _imports, _settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_DDTRACE = "ddtrace.profiling.profiler"
_taken: set[str] = set()
_configured: list[object] = []  # by pyroscope.configure; it outlives a reload of that module


def _profile(**settings: object) -> object:
    """A Profiler that is told what the other one was told, as far as there is a setting for it."""
    from pyrometer.profiler import Profiler

    return Profiler(**{name: value for name, value in settings.items() if value})


def _start(profiler: object) -> None:
    """Starts it, unless Pyrometer runs already, which is what was asked for."""
    from pyrometer.profiler import Profiler

    assert isinstance(profiler, Profiler)
    if not profiler.status()["running"]:
        profiler.start()


class _DatadogProfiler:
    """What `ddtrace.profiling.Profiler` is while it is taken over: the same calls."""

    def __init__(
        self,
        service: str | None = None,
        tags: dict[str, str] | None = None,
        env: str | None = None,
        version: str | None = None,
        tracer: object = None,
        api_key: str | None = None,
        **others: object,
    ) -> None:
        self._profiler = _profile(
            service=service, tags=tags, env=env, version=version, api_key=api_key
        )

    def start(self, *arguments: object, **others: object) -> None:
        _start(self._profiler)

    def stop(self, flush: bool = True) -> None:
        self._profiler.stop(flush)  # type: ignore[attr-defined]


class _Finder:
    """Finds the one module of ddtrace that is replaced."""

    @staticmethod
    def find_spec(
        name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name != _DDTRACE:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, _Finder, origin="pyrometer")  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: "ModuleSpec") -> "ModuleType | None":
        return None

    @staticmethod
    def exec_module(module: "ModuleType") -> None:
        module.__doc__ = "Pyrometer in the place of ddtrace's profiler (PYROMETER_TAKEOVER)."
        module.Profiler = _DatadogProfiler  # type: ignore[attr-defined]


def _take_pyroscope(module: "ModuleType") -> None:
    from pyrometer import labels

    def configure(
        app_name: str | None = None,
        application_name: str | None = None,
        *arguments: object,
        tags: dict[str, str] | None = None,
        **others: object,
    ) -> bool:
        _configured.append(_profile(service=application_name or app_name, tags=tags))
        _start(_configured[-1])
        return True

    def shutdown(*arguments: object, **others: object) -> None:
        while _configured:
            _configured.pop().stop()  # type: ignore[attr-defined]

    def tag_wrapper(tags: dict[str, object], *arguments: object, **others: object) -> labels:
        return labels(**{str(name): value for name, value in tags.items()})

    def nothing(*arguments: object, **others: object) -> None:
        """What only Pyroscope's own agent can do."""

    mine: dict[str, object] = {"configure": configure, "shutdown": shutdown}
    mine["tag_wrapper"] = tag_wrapper
    for name in ("add_thread_tag", "remove_thread_tag", "configure_experimental_stack_profiler"):
        mine[name] = nothing
    for name, function in mine.items():
        if hasattr(module, name):
            setattr(module, name, function)


def install(names: "Sequence[str]") -> None:
    """Takes over those, once each. Others are left for the settings to warn of."""
    for name in names:
        if name in _taken:
            continue
        _taken.add(name)
        if name == "ddtrace" and _DDTRACE not in sys.modules:
            sys.meta_path.insert(0, _Finder)
        elif name == "pyroscope":
            _imports.when_imported("pyroscope", _take_pyroscope, each_time=True)


def other_profiler() -> str:
    """The name of another profiler that runs in this process, "" = none that we know of."""
    profiler = getattr(sys.modules.get(_DDTRACE), "Profiler", None)
    return "ddtrace" if getattr(profiler, "_active_instance", None) is not None else ""


def _wanted() -> list[str]:
    text = os.environ.get("PYROMETER_TAKEOVER", "")
    return [name.strip().lower() for name in text.split(",") if name.strip()]


if not _settings.environment_is_off():
    install(_wanted())
