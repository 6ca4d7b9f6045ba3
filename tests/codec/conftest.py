"""Fixtures of the codec tests: recorded frames."""

from __future__ import annotations

import pytest

from tests.codec.wire import KINDS, Wire, load_wire


@pytest.fixture(scope="session", params=KINDS)
def wire(request: pytest.FixtureRequest) -> Wire:
    """The recorded frames with JSON headers, then those with binary ones."""
    return load_wire(request.param)
