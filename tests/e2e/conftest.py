"""What all end-to-end tests share."""

from collections.abc import Iterator

import agent
import pytest


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """A test that fails does not leave its program running beside those that follow."""
    yield
    while agent.STARTED:
        process = agent.STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.wait()
