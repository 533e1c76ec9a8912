"""The profilers that are compared: how each is started inside a program, with its defaults.

Imported by the measured programs, so it imports nothing but what it needs; BENCH_PROFILER names the
profiler, and BENCH_OUT the folder that its files go to.
"""

import ctypes
import os
import time

IN_PROCESS = ["none", "pyrometer", "ddtrace", "pyroscope"]
CONTROL = "again"  # no profiler, once more
FLOOR = "wake"  # no profiler, but a thread that does nothing but wake as often as one looks

# No agent, no telemetry, no tracing: only the profiler is measured. Set by whoever starts the
# program, because a profiler reads its environment when it is imported.
ENVIRONMENT = {
    "ddtrace": {
        "DD_TRACE_ENABLED": "false",
        "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
        "DD_REMOTE_CONFIGURATION_ENABLED": "false",
        "DD_CRASHTRACKING_ENABLED": "false",
    },
}


def environment(profiler: str, folder: str) -> dict[str, str]:
    """The environment of a program that is to run under `profiler`, files going to `folder`."""
    variables = {
        "BENCH_PROFILER": profiler,
        "BENCH_OUT": folder,
        "DD_PROFILING_OUTPUT_PPROF": os.path.join(folder, "ddtrace"),
        "PYROMETER_OUTPUT_PPROF": os.path.join(folder, "pyrometer"),
    }
    return {**os.environ, **variables, **ENVIRONMENT.get(profiler, {})}


def start() -> float:
    """Starts the profiler that the environment names; the milliseconds until it runs."""
    profiler = os.environ.get("BENCH_PROFILER", "none")
    began = time.perf_counter()
    if profiler == "pyrometer":
        import pyrometer.auto  # noqa: F401
    elif profiler == "ddtrace":
        import ddtrace.profiling.auto  # noqa: F401
    elif profiler == "pyroscope":
        import pyroscope

        pyroscope.configure(
            application_name="bench",
            server_address="http://127.0.0.1:9",
            sample_rate=100,
            oncpu=False,
            gil_only=False,
            mem_enabled=True,
        )
    elif profiler == FLOOR:
        ctypes.CDLL(os.environ["BENCH_WAKE"]).wake_start(10_000_000, 0)
    return (time.perf_counter() - began) * 1e3
