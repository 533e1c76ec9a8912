"""Calls back when a module is imported, now if it is there already.

The finder stands first on `sys.meta_path` only while it waits for something, and lets the others
find: it but wraps the loader of a module that is waited for. Reloads come through it as well.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Callback = Callable[[ModuleType], None]

_waiting: "dict[str, list[Callback]]" = {}
_each_time: "set[Callback]" = set()  # those that go on to wait


class _Loader:
    """The loader of one module, which calls back when the module's code has run."""

    def __init__(self, loader: "object", spec: "ModuleSpec") -> None:
        self._loader = loader
        self._spec = spec

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        module: ModuleType | None = self._loader.create_module(spec)  # type: ignore[attr-defined]
        return module

    def exec_module(self, module: "ModuleType") -> None:
        # As if we had never been here, before anybody can look.
        self._spec.loader = self._loader  # type: ignore[assignment]
        module.__loader__ = self._loader  # type: ignore[assignment]
        self._loader.exec_module(module)  # type: ignore[attr-defined]
        _call_back(module.__name__, module)


class _Finder:
    @staticmethod
    def find_spec(
        name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name not in _waiting:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is _Finder or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, spec)  # type: ignore[assignment]
                return spec
        return None


def _call_back(name: str, module: "ModuleType") -> None:
    callbacks = _waiting.pop(name, [])
    lasting = [callback for callback in callbacks if callback in _each_time]
    if lasting:
        _waiting[name] = lasting
    if not _waiting and _Finder in sys.meta_path:
        sys.meta_path.remove(_Finder)
    for callback in callbacks:
        try:
            callback(module)
        except Exception:
            pass  # the program's import must not fail for our sake


def when_imported(name: str, callback: "Callback", each_time: bool = False) -> None:
    """Calls `callback(module)` after the module `name` has been imported: once, or each time that
    its code runs anew, as in a reload."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if module is not None and not getattr(spec, "_initializing", False):
        callback(module)
        if not each_time:
            return
    if each_time:
        _each_time.add(callback)
    _waiting.setdefault(name, []).append(callback)
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
