"""Memory of the server, whatever the store's size: 200 MB at most."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

from conftest import NOW, SECOND, Server, make_profile, pprof

DAY = 86400 * SECOND
BOUND_KB = 200 * 1024
SERVICES, DAYS, ROWS = 3, 8, 3000


def most_memory(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        (most,) = (int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return most


def test_memory_does_not_grow_with_the_store(tmp_path):
    """Sixteen senders fill 24 books, more than are kept in memory, each with thousands of symbols;
    then the profiles are copied in the file, and every view asks for all of them."""
    server = Server(tmp_path / "store")
    start = (NOW // DAY - DAYS) * DAY
    bodies = [pprof.write(make_profile(n, samples=1000, functions=2000)) for n in range(4)]

    def send(number):
        begin = start + number // SERVICES % DAYS * DAY + number * SECOND
        labels = {"service": f"s{number % SERVICES}", "pid": number // (2 * SERVICES * DAYS)}
        labels |= {"from": begin // SECOND, "until": begin // SECOND + 60}
        return server.ask("POST", "/api/upload", bodies[number // (SERVICES * DAYS)], **labels).code

    with ThreadPoolExecutor(16) as senders:
        assert set(senders.map(send, range(SERVICES * DAYS * 4))) == {200}
    taking_in = most_memory(server)
    assert server.stop() == (0, "")
    with sqlite3.connect(tmp_path / "store" / "pyrometer.db") as database:
        for doubled in range(6):  # as they are: in no sum, so each is read
            database.execute(
                "INSERT INTO profile(series, book, level, rolled, start_ns, end_ns, samples,"
                " bytes, block) SELECT series, book, level, 2, start_ns+?, end_ns+?, samples,"
                " bytes, block FROM profile WHERE level=0 LIMIT"
                " max(0, ?-(SELECT count(*) FROM profile WHERE level=0))",
                (60 * SECOND << doubled, 60 * SECOND << doubled, ROWS),
            )
        query = "SELECT count(*), count(DISTINCT book) FROM profile WHERE level=0"
        assert list(database.execute(query)) == [(ROWS, SERVICES * DAYS)]
    database.close()
    server = Server(tmp_path / "store")
    asked = {"type": "wall-time", "from": "now-20d", "until": "now"}
    for path, more in [
        ("/api/flame", {}),
        ("/api/flame", {"where": "thread name=worker-1"}),
        ("/api/document", {"type": ""}),
        ("/api/top", {"by": "line"}),
        ("/api/series", {"by": "function", "step": "1d"}),
        ("/api/pprof", {}),
    ]:
        answer = server.ask("GET", path, **{**asked, **more})
        assert answer.code == 200, (path, answer.body)
    asking = most_memory(server)
    assert server.stop() == (0, "")
    assert max(taking_in, asking) < BOUND_KB, (taking_in, asking)
