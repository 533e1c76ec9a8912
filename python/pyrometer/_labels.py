"""Labels for what a program does: `with labels(route="/cart"): ...`, or as a decorator.

Entering and leaving is done by the extension; here is what only Python can do: functions of every
kind as decorators, and executors. Where the profiler can never run (switched off by the
environment, or a Python that the core does not load in), labels do nothing and load nothing.
"""

import functools

from pyrometer import _imports, _settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from types import ModuleType
    from typing import Any, TypeVar

    from pyrometer._native import Labels as _Labels

    Function = TypeVar("Function", bound=Callable[..., Any])
else:

    class _Nothing:
        """What labels are where the profiler can never run."""

        __slots__ = ()

        def __init__(self, **labels):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    _Labels = _Nothing

_core: "ModuleType | None" = None
if not _settings.environment_is_off():
    try:
        from pyrometer import _native as _core
    except ImportError:
        pass
    if _core is not None:
        _Labels = _core.Labels  # type: ignore[misc]

_IS_GENERATOR, _IS_COROUTINE, _IS_ASYNC_GENERATOR = 0x20, 0x80, 0x200  # of inspect's CO_ flags
_IS_ITERABLE_COROUTINE = 0x100


class labels(_Labels):
    """Labels of everything that runs within the block: `with labels(route="/cart", tenant=7): ...`.

    They are on every sample of the profile. Blocks nest: inner labels are added, one of the same
    name counts instead, and None takes it away. They are kept in a context variable, so asyncio
    tasks, `asyncio.to_thread` and `contextvars.copy_context` carry them on, as does submitting to
    a `ThreadPoolExecutor`; a new thread or process starts without. At most 16 labels are in force;
    values are what `str` says of them, at most 128 bytes of it.

    As a decorator, `@labels(route="/cart")`, they are in force while the function's own code runs:
    that of a coroutine or a generator too, but not of who iterates over it.
    """

    __slots__ = ()

    def __call__(self, function: "Function") -> "Function":
        if _core is None:
            return function
        flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
        kind = (
            _around_async_generator
            if flags & _IS_ASYNC_GENERATOR
            else _around_coroutine
            if flags & _IS_COROUTINE
            else _around_generator
            if flags & _IS_GENERATOR and not flags & _IS_ITERABLE_COROUTINE
            else _around_call
        )
        return functools.wraps(function)(kind(self, function))  # type: ignore[return-value]

    @staticmethod
    def current() -> dict[str, str]:
        """The labels in force here."""
        found: dict[str, str] = _core.labels_current() if _core is not None else {}
        return found


def _around_call(own: labels, function: "Callable[..., Any]") -> "Callable[..., Any]":
    def call(*arguments: "Any", **keywords: "Any") -> "Any":
        with own:
            return function(*arguments, **keywords)

    return call


def _around_coroutine(own: labels, function: "Callable[..., Any]") -> "Callable[..., Any]":
    async def call(*arguments: "Any", **keywords: "Any") -> "Any":
        with own:
            return await function(*arguments, **keywords)

    return call


def _around_generator(own: labels, function: "Callable[..., Any]") -> "Callable[..., Any]":
    def call(*arguments: "Any", **keywords: "Any") -> "Generator[Any, Any, Any]":
        generator, again = function(*arguments, **keywords), own._again()
        step, value = generator.send, None
        scope: _Labels = own
        try:
            while True:
                with scope:
                    item = step(value)
                scope = again
                try:
                    value = yield item
                    step = generator.send
                except GeneratorExit:
                    with again:
                        generator.close()
                    raise
                except BaseException as error:
                    step, value = generator.throw, error
        except StopIteration as end:
            return end.value

    return call


def _around_async_generator(own: labels, function: "Callable[..., Any]") -> "Callable[..., Any]":
    async def call(*arguments: "Any", **keywords: "Any") -> "AsyncGenerator[Any, Any]":
        generator, again = function(*arguments, **keywords), own._again()
        step, value = generator.asend, None
        scope: _Labels = own
        try:
            while True:
                with scope:
                    item = await step(value)
                scope = again
                try:
                    value = yield item
                    step = generator.asend
                except GeneratorExit:
                    with again:
                        await generator.aclose()
                    raise
                except BaseException as error:
                    step, value = generator.athrow, error
        except StopAsyncIteration:
            return

    return call


def _carry_in(module: "ModuleType") -> None:
    """Lets what is submitted to a ThreadPoolExecutor run under the labels of who submits it."""
    assert _core is not None
    carry = _core.labels_carry
    executor = module.ThreadPoolExecutor
    submit = executor.submit

    @functools.wraps(submit)
    def submit_labelled(self: "Any", fn: "Any", /, *args: "Any", **kwargs: "Any") -> "Any":
        return submit(self, carry(fn), *args, **kwargs)

    executor.submit = submit_labelled


def _drop_in_children(module: "ModuleType") -> None:
    """A child of multiprocessing starts without labels, however it was started."""
    assert _core is not None
    drop = _core.labels_drop
    module.register_after_fork(labels, lambda _: drop())


if _core is not None:
    _imports.when_imported("concurrent.futures.thread", _carry_in)
    _imports.when_imported("multiprocessing.util", _drop_in_children)
