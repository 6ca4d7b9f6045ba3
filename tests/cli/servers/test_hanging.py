"""A broker that accepts connections and says nothing."""

from __future__ import annotations

import socket

import pytest

from tests.cli.conftest import Run
from tests.cli.servers.clusters import Pair


@pytest.mark.parametrize(
    "words", [("broker", "status"), ("broker", "ping", "-c", "1"), ("topic", "top", "DefaultCluster")]
)
def test_a_broker_that_hangs_is_named(half: Run, lame: Pair, words: tuple[str, ...]) -> None:
    host, _, port = lame.brokers["broker-b"].rpartition(":")
    with socket.create_server((host, int(port))):
        for seconds in ("0.5", "5", "30"):  # broker-a has to answer in time on a busy machine
            result = half("--timeout", seconds, *words)
            if result.out:
                break
    assert result.code == 3
    assert result.err.startswith(f"rmq: broker-b: {host}:{port} did not answer ")
