"""Pyrometer: an always-on continuous profiler for Python services.

Importing the package starts nothing. ``import pyrometer.auto`` starts the profiler of this process,
``pyrometer run CMD`` that of any command, and ``Profiler`` by hand. ``labels`` says what the
program is doing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyrometer._labels import labels
    from pyrometer.profiler import Profiler

__all__ = ["Profiler", "__version__", "labels"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Loads what is first asked for now: switched off, the core is never loaded."""
    if name == "Profiler":
        from pyrometer.profiler import Profiler

        return Profiler
    if name == "labels":
        from pyrometer._labels import labels

        globals()[name] = labels
        return labels
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
