"""A small Flask service: each request computes a little, takes a lock, raises and answers JSON."""

import json
import threading

import profilers

profilers.start()

from flask import Flask, jsonify  # noqa: E402

app = Flask(__name__)
guard = threading.Lock()


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@app.get("/")
def index():
    with guard:
        value = fib(12)
    try:
        json.loads("{")
    except ValueError:
        pass
    return jsonify(items=[{"id": i, "name": str(i) * 3} for i in range(50)], value=value)
