"""Asks and steers a running profiler: that of this process, or of another one by its pid.

    from pyrometer import control
    control.status(pid)             # as Profiler().status()
    control.flush(pid)              # delivers the current window now
    control.stop(pid)               # what is left is one thread that can start it again
    control.start(pid)
    control.set(pid, sampling_interval="5ms")

Without a pid it is this process. What `pyrometer ctl` does is the same. Refusals and failures are
`control.Refused`, with one sentence; wrong settings change nothing.
"""

import json
import os
import socket
import struct

from pyrometer import _settings
from pyrometer.profiler import Profiler, _process

_TIMEOUT = 20.0  # of an answer: a flush may take 10 seconds


class Refused(RuntimeError):
    """It cannot be done; the text says why."""


def status(pid: int | None = None) -> dict[str, object]:
    """What the profiler does, costs and lost, by section, with `running`."""
    if pid is None:
        return Profiler().status()
    facts = _ask(pid, "status")
    answer = facts.pop("answer")
    return {**facts, "running": bool(answer["running"])}


def flush(pid: int | None = None) -> None:
    """Delivers the current window now."""
    if pid is not None:
        _ask(pid, "flush")
    elif not Profiler().flush():
        raise Refused("the window is not delivered yet, or the profiler is stopped")


def start(pid: int | None = None, **settings: object) -> None:
    """Starts it again, with the settings that it had and these."""
    _steer(pid, "start", settings)


def stop(pid: int | None = None) -> None:
    """Stops it, after delivering the last window."""
    _steer(pid, "stop", {})


def set(pid: int | None = None, **settings: object) -> None:
    """Changes settings: what runs is stopped, its window delivered, and started again with them."""
    _steer(pid, "set", settings)


def _steer(pid: int | None, what: str, settings: dict[str, object]) -> None:
    words = [f"{name}={_settings.to_text(value)}" for name, value in settings.items()]
    if pid is not None:
        _ask(pid, what, *words)
        return
    if _process.core is None:
        raise Refused("the profiler was never started in this process")
    for word in words:
        if wrong := _process.core.check_setting(word):
            raise Refused(wrong)
    wrong = _process.steer([what, *words])
    _process.log_waiting()
    if wrong:
        raise Refused(wrong)


def _address(pid: int) -> bytes:
    """The abstract name of the socket of a process, which knows its own pid and its namespace."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        raise Refused(f"there is no process {pid}") from None
    try:
        namespace = os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:  # not ours to see: most likely it is this one
        namespace = os.readlink("/proc/self/ns/pid")
    inner = next((line for line in lines if line.startswith(b"NSpid:")), b"NSpid: %d" % pid)
    number = namespace[namespace.index("[") + 1 : -1]
    return f"\0pyrometer/control/{number}/{int(inner.split()[-1])}".encode()


def _ask(pid: int, *words: str) -> dict[str, dict[str, int | float | str]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_TIMEOUT)
        try:
            connection.connect(_address(pid))
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            if struct.unpack("3i", peer)[0] != pid:
                raise Refused(f"another process answers for process {pid}")
            connection.sendall("\0".join(words).encode("utf-8", "surrogateescape"))
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except ConnectionRefusedError:
            raise Refused(
                f"no profiler listens in process {pid}: it runs none, or CONTROL_ENABLED is false"
            ) from None
        except OSError as error:
            raise Refused(f"process {pid} does not answer: {error}") from None
    if not answer:
        raise Refused(f"process {pid} belongs to another user")
    facts: dict[str, dict[str, int | float | str]] = json.loads(answer)
    if not facts["answer"]["ok"]:
        raise Refused(str(facts["answer"]["error"]))
    return facts
