"""A scripted network for every test of the client, on a clock that jumps: a busy machine cannot make a timeout."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.client.scripted import Network


@pytest.fixture
def network(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> Network:
    return Network(nursery)
