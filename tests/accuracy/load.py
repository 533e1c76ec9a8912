"""Loads the service on a port over some connections for some seconds, and prints what GET /stop
says. A process of its own, so that its work is no part of the service's CPU."""

import http.client
import sys
import threading
import time

PORT, CONNECTIONS, SECONDS = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


def get(connection, path):
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, body
    return body


def ask(end):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    while time.monotonic() < end:
        get(connection, "/")
    connection.close()


threads = [
    threading.Thread(target=ask, args=(time.monotonic() + SECONDS,)) for _ in range(CONNECTIONS)
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
last = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
print(get(last, "/stop").decode())
