"""A thread's wall time in words: what its states say against what the program measured itself."""

import math

import pytest
from truth import FINE, SIGMAS, measured, of_thread

WITHIN = 0.05  # of the thread's wall time

PROGRAM = """
    import queue, socket
    from inside import *

    STEP = {step}
    jobs, gifts, lock = queue.SimpleQueue(), queue.Queue(), threading.Lock()
    near, far = socket.socketpair()
    taken, competing = threading.Event(), threading.Event()

    def partner():
        '''Does what another thread of a program does: holds a lock, answers, hands over work.'''
        while (job := jobs.get()) != "end":
            if job == "hold":
                with lock:
                    taken.set()
                    time.sleep(STEP)
            elif job == "send":
                time.sleep(STEP)
                far.send(b"x")
            elif job == "give":
                time.sleep(STEP)
                gifts.put(1)
    def competitor():
        while competing.wait():
            for _ in range(300): pass

    def sleeping(): time.sleep(STEP)
    def computing(): burn(STEP / 2)
    def locking():
        with lock: pass
    def receiving(): near.recv(1)
    def parking(): gifts.get()
    def contending(): burn(STEP / 2)
    def handshake():
        taken.wait()
        taken.clear()
    def worker(facts):
        meter, start = Meter(), time.monotonic()
        end = start + 5
        while time.monotonic() < end:
            meter.run(sleeping)
            meter.run(computing)
            jobs.put("hold")
            meter.run(handshake)
            meter.run(locking)
            jobs.put("send")
            meter.run(receiving)
            jobs.put("give")
            meter.run(parking)
            competing.set()
            meter.run(contending)
            competing.clear()
            facts["rounds"] = facts.get("rounds", 0) + 1
        facts["meter"], facts["length"] = meter, time.monotonic() - start

    def work():
        facts, workers = {{}}, Workers()
        for function in partner, competitor:
            threading.Thread(target=function, daemon=True).start()
        workers.start(worker, facts)
        workers.wait()
        jobs.put("end")
        return facts
    measure(work)
    """


@pytest.mark.parametrize(("step", "settings"), [(0.12, {}), (0.04, FINE)])
def test_states_are_what_the_thread_did(tmp_path, step, settings):
    source = PROGRAM.format(step=step)
    found = measured(tmp_path, source, **settings)
    used = found.truth["meter"]["used"]
    wall, cpu, waits = ({name: row[column] for name, row in used.items()} for column in range(3))

    # Truth as intervals, in seconds. A thread that was woken and waits for a CPU may be said to be
    # still in its wait, or runnable. Both ends meet on a machine with a free CPU.
    def waiting(*names):
        return sum(wall[n] - cpu[n] - waits[n] for n in names), sum(wall[n] for n in names)

    competed = wall["contending"] - cpu["contending"]
    expected = {
        "sleep": waiting("sleeping"),
        "lock-wait": waiting("locking"),
        "io": waiting("receiving"),
        "parked": waiting("parking", "handshake"),
        "on-cpu": (sum(cpu.values()),) * 2,
        "gil-wait": (competed - waits["contending"], competed),
        "runnable": (wall["computing"] - cpu["computing"], sum(waits.values())),
        "other": (0, 0),
    }
    mine = of_thread(found.truth["meter"]["native_id"])
    inside = [s for s in found.samples if mine(s) and any(f[0] == "worker" for f in s.stack)]
    total = found.truth["length"]
    # The end of a stretch is seen up to a tick late or early: an error with a variance of a sixth
    # of a squared interval at each end, and a state has at most three stretches a round.
    error = found.interval * math.sqrt(2 * 3 * found.truth["rounds"] / 6)
    report = {}
    for state, (least, most) in expected.items():
        seen = sum(s.values["wall-time"] for s in inside if s.labels.get("state") == state) / 1e9
        report[state] = (round(seen, 3), round(least, 3), round(most, 3))
        allowed = WITHIN * total + SIGMAS * error
        if not least - allowed <= seen <= most + allowed:
            report["wrong"] = state
    assert "wrong" not in report, (report, total, error)
    assert sum(s.values["wall-time"] for s in inside) / 1e9 == pytest.approx(
        total, rel=0.01, abs=found.lateness
    )
