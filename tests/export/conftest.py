import pytest
from stub import Stub


@pytest.fixture
def stub():
    made = Stub()
    yield made
    made.close()


@pytest.fixture
def make_stub():
    """Several, or special ones."""
    made = []

    def make(**arguments):
        made.append(Stub(**arguments))
        return made[-1]

    yield make
    for one in made:
        one.close()
