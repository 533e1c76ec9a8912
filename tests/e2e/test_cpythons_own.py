"""CPython's own tests of what is hooked, all collectors on, where the interpreter ships them."""

import importlib.util
import os

import pytest
from agent import run

MODULES = ["test_thread", "test_queue", "test_asyncio.test_locks", "test_asyncio.test_queues"]
# The rest takes minutes, and has deadlines of its own that busy machines miss:
# PYROMETER_CPYTHONS_OWN="test_threading test_asyncio.test_tasks
# test_concurrent_futures.test_process_pool ..." (3.11: test_concurrent_futures, all of it)
MODULES += os.environ.get("PYROMETER_CPYTHONS_OWN", "").split()


def is_there(module):
    try:
        return importlib.util.find_spec(f"test.{module}") is not None
    except ImportError:
        return False


@pytest.mark.timeout(700)
@pytest.mark.parametrize("module", MODULES)
def test_passes(tmp_path, module):
    if not is_there(module):
        pytest.skip(f"this Python has no test.{module}")
    done = run(
        tmp_path,
        f"""
import pyrometer.auto
import unittest
if __name__ == "__main__":
    unittest.main(module=None, argv=["unittest", "test.{module}"])
""",
        timeout=600,
    )
    assert done.code == 0, done.err[-4000:]
    assert any(sample.values.get("lock-acquire") for sample in done.samples())
