"""A scripted network for every test of the client.

Tests take `autojump_clock` beside it, so that a busy machine cannot make a timeout.
"""

from __future__ import annotations

import pytest
import trio

from tests.client.scripted import Network


@pytest.fixture
def network(nursery: trio.Nursery) -> Network:
    return Network(nursery)
