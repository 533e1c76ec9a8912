"""Starts the profiler of this process when imported, unless PYROMETER_ENABLED is false.

Switched off, it is nothing but a look at the environment: the core is not even loaded.
"""

from pyrometer._settings import environment_is_off

if not environment_is_off():
    from pyrometer.profiler import Profiler

    Profiler().start()
