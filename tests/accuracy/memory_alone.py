"""Runs a program under the memory collector alone."""

import json
from collections import defaultdict

from truth import agent

ALONE = {
    "PYROMETER_STACK_ENABLED": "false",
    "PYROMETER_LOCK_ENABLED": "false",
    "PYROMETER_EXCEPTION_ENABLED": "false",
    "PYROMETER_EXIT_TIMEOUT": "30s",
}


def profiled(folder, source, *arguments, timeout=120, **settings):
    words = map(str, arguments)
    done = agent.run(folder, source, *words, timeout=timeout, **(ALONE | settings))
    assert (done.code, done.err) == (0, ""), done.err
    return done


def documents(done):
    found = [json.loads(path.read_text()) for path in done.folder.glob("app.*.json")]
    return sorted(found, key=lambda document: document["window"]["sequence"])


def by_function(samples, kind):
    """Of each function its self value: who allocated. A comprehension is its function's, as it is
    by itself from Python 3.12 on."""
    sums = defaultdict(int)
    for sample in samples:
        leaf = next((name for name, file, _ in sample.stack if file != "<native>"), "")
        sums[leaf.split(".<locals>")[0]] += sample.values[kind]
    return sums
