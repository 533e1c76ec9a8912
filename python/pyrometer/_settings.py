"""Settings as far as only Python reads them: the switch, before the core is loaded, and the file.

What they are and what they may be is the core's business (docs/settings.md).
"""

import os

_OFF = ("0", "false", "no", "off")
_MOST_BYTES = 1 << 15  # what `pyrometer config` can be handed in a variable


def is_off(value: object) -> bool:
    return str(value).strip().lower() in _OFF


def environment_is_off() -> bool:
    names = ("PYROMETER_ENABLED", "DD_PROFILING_ENABLED")
    return is_off(next(filter(None, map(os.environ.get, names)), ""))


def to_text(value: object) -> str:
    try:
        return _to_text(value)
    except Exception:  # of its own __str__, or it is an integer of too many digits
        return f"<{type(value).__name__}>"


def _to_text(value: object) -> str:
    if isinstance(value, bytes):
        return os.fsdecode(value)
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    if isinstance(value, dict):
        return ",".join(f"{key}:{item}" for key, item in value.items())
    return str(value)


def read_file(path: str) -> tuple[dict[str, str], str]:
    """The settings in a TOML file, and what is wrong with it: one sentence, or ""."""
    import tomllib

    path = path.strip()
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe may never end
            return {}, f"CONFIG_FILE: {path} is ignored, it is not a regular file"
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError("it is larger than 32 KiB")
        values = tomllib.loads(content.decode())
    except OSError as error:
        return {}, f"CONFIG_FILE: {path} is ignored, it cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:  # the former of both TOML and UTF-8
        return {}, f"CONFIG_FILE: {path} is ignored, it is no TOML: {error}"
    return {name: to_text(value) for name, value in values.items()}, ""
