"""Asks the demo service for its pages, eight clients at once, for some seconds.

usage: load.py PORT SECONDS
"""

import http.client
import random
import sys
import threading
import time

PAGES = ["/primes", "/sleep", "/stock", "/catalogue", "/archive", "/files", "/order"]
CLIENTS = 8

port, seconds = int(sys.argv[1]), float(sys.argv[2])
end = time.monotonic() + seconds
counts = dict.fromkeys(PAGES, 0)
lock = threading.Lock()


def client():
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while time.monotonic() < end:
        page = random.choice(PAGES)
        connection.request("GET", page)
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            sys.exit(f"{page} answered {response.status}")
        with lock:
            counts[page] += 1


clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
for one in clients:
    one.start()
for one in clients:
    one.join()
print(
    f"{sum(counts.values())} requests in {seconds:g} s:",
    ", ".join(f"{page} {count}" for page, count in counts.items()),
)
