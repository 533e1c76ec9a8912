"""What every server runs: a handler that burns, another one, and the truth about both.

The truth is this process's own clocks, in a file of the folder TRUTH named by its pid.
"""

import json
import os
import threading
import time

used = {"busy": 0.0, "other": 0.0}
lock = threading.Lock()


def spin(seconds):
    begin = time.thread_time()
    while time.thread_time() < begin + seconds:
        for _ in range(500):
            pass
    return time.thread_time() - begin


def note(kind, seconds):
    with lock:
        used[kind] += seconds
        truth = {**used, "process": time.process_time(), "parent": os.getppid()}
        path = os.path.join(os.environ["TRUTH"], str(os.getpid()))
        with open(path + "~", "w") as file:
            json.dump(truth, file)
        os.replace(path + "~", path)


def busy_handler():
    note("busy", spin(0.06))


def other_handler():
    note("other", spin(0.02))


def handle(path):
    (busy_handler if path == "/busy" else other_handler)()
    return str(os.getpid()).encode()


def application(environment, start_response):
    body = handle(environment["PATH_INFO"])
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    body = handle(scope["path"])
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
