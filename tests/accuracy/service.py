"""A Flask service whose handler is measured by its threads' own clocks.

GET /stop gives the share that a profile must show for `handle`. The service starts the profiler
itself, so that both begin together.
"""

import json
import threading
import time

from flask import Flask, jsonify
from inside import Meter

from pyrometer import Profiler

app = Flask(__name__)
lock = threading.Lock()
here = threading.local()
meters = []


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def handle():
    with lock:
        number = fibonacci(12)
    try:
        json.loads("{")
    except ValueError:
        pass
    return jsonify(items=[{"id": i, "name": str(i) * 3} for i in range(50)], number=number)


@app.get("/")
def index():
    if not hasattr(here, "meter"):
        here.meter = Meter()
        meters.append(here.meter)
    return here.meter.run(handle)


@app.get("/stop")
def stop():
    """Ends the profile; the truth is of the moment before."""
    process = time.process_time() - began
    profiler.stop()
    rows = [meter.used["handle"] for meter in meters]
    _, cpu, waits = (sum(column) for column in zip(*rows))
    # The waits of the rest are mostly of threads without the GIL, which are no part of the CPU.
    return {"used": {"handle": (0, cpu, waits), "rest": (0, process - cpu, 0)}, "process": process}


profiler = Profiler()
profiler.start()
began = time.process_time()
