"""A small shop as a web service: threads, a pool of workers, and every way to spend time.

    /primes    computes                  /catalogue  recursion over a tree
    /sleep     waits for a slow partner  /archive    compresses (C code, without the GIL)
    /stock     waits for a lock          /files      reads and writes a file
    /order     leaves work to a pool of workers, and waits for it

Prints its port, and serves until it is told to end. The standard library only.
"""

import json
import os
import random
import tempfile
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

workers = ThreadPoolExecutor(4, thread_name_prefix="worker")
stock_lock = threading.Lock()
stock = {number: 100 for number in range(200)}


def is_prime(number):
    return number > 1 and all(number % factor for factor in range(2, int(number**0.5) + 1))


def primes():
    start = random.randrange(10_000, 20_000)
    return [number for number in range(start, start + 400) if is_prime(number)]


def ask_partner():
    time.sleep(random.uniform(0.02, 0.06))
    return "the partner answered"


def count_stock():
    """Slow under its lock, so that others queue for it."""
    with stock_lock:
        total = 0
        for number in stock:
            total += sum(stock[number] * weight % 7 for weight in range(60))
        return total


def build_category(depth):
    if depth == 0:
        return {"name": "leaf", "price": random.randrange(100)}
    return {"parts": [build_category(depth - 1) for _ in range(3)]}


def price_of(category):
    if "price" in category:
        return category["price"]
    return sum(price_of(part) for part in category["parts"])


def catalogue():
    return price_of(build_category(6))


def archive():
    return len(zlib.compress(os.urandom(1 << 10) * 400, 9))


def files():
    with tempfile.TemporaryFile() as file:
        for _ in range(50):
            file.write(os.urandom(4096))
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        return sum(len(block) for block in iter(lambda: file.read(4096), b""))


def pack_order(lines):
    return json.loads(json.dumps([{"line": line, "sum": line * 7} for line in range(lines)]))


def order():
    parts = [workers.submit(pack_order, 1500) for _ in range(3)]
    return sum(len(part.result()) for part in parts)


ENDPOINTS = {
    "/primes": primes,
    "/sleep": ask_partner,
    "/stock": count_stock,
    "/catalogue": catalogue,
    "/archive": archive,
    "/files": files,
    "/order": order,
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        endpoint = ENDPOINTS.get(urlsplit(self.path).path)
        if endpoint is None:
            self.send_error(404)
            return
        body = json.dumps(endpoint()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
