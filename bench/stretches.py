"""Where CPU is put that a thread used between two looks: a simulation, in no time.

A thread runs `big`, sleeps, runs `small`, sleeps, and so on; a look comes at a random place of
each tick. Printed for stretches of several lengths, in ticks: the share of `big`, less the true
one, where each look that finds the thread running takes all CPU that no look has taken yet (1: what
Pyrometer does), and where it takes a tick and a part of what is left beyond it.
"""

import random

LOOKS = 60_000
PARTS = [1, 0.25, 0.1, 0.03]  # 1: all of it
STRETCHES = [
    (1.5, 0.5, 1.06),
    (1.2, 0.4, 0.3),
    (0.6, 0.2, 0.3),
    (0.15, 0.05, 0.1),
    (3, 1, 0.5),
    (3, 1, 3),
    (9, 3, 2),
    (0.3, 0.1, 5),
]


def bias(part: float, big: float, small: float, sleep: float) -> float:
    """The share that `big` gets, less the one that it has."""
    draw = random.Random(1)
    turns = [("big", big), ("", sleep), ("small", small), ("", sleep)]
    used, put = {"big": 0.0, "small": 0.0}, {"big": 0.0, "small": 0.0}
    now = left = waiting = 0.0
    name, turn = "", 0
    for look in range(LOOKS):
        until = look + draw.random()
        while now < until:
            if left <= 0:
                name, length = turns[turn % len(turns)]
                left = length * (1 + 0.02 * draw.random())  # no lock-step
                turn += 1
            step = min(left, until - now)
            now += step
            left -= step
            if name:
                used[name] += step
                waiting += step
        if name and left > 0:
            taken = min(max(1 + part * (waiting - 1), 0), waiting)
            put[name] += taken
            waiting -= taken
    return put["big"] / sum(put.values()) - used["big"] / sum(used.values())


print("big, small, sleep     " + "".join(f"{part:8}" for part in PARTS))
for stretch in STRETCHES:
    row = "".join(f"{100 * bias(part, *stretch):+8.1f}" for part in PARTS)
    print(f"{stretch!s:22}{row} points")
