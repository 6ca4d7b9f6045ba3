"""A broker that accepts connections and says nothing."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from rmqcli.commands.common import admin
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


def test_who_is_waited_for_is_said(half: Run, lame: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "PATIENCE_S", 0.2)
    monkeypatch.setattr(admin, "sys", SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True)))
    host, _, port = lame.brokers["broker-b"].rpartition(":")
    with socket.create_server((host, int(port))):
        result = half("--timeout", "1", "broker", "status")
    assert result.err.startswith(
        f"rmq: waiting for {host}:{port}, which has not answered yet\nrmq: broker-b: "
    )


def test_a_tail_names_who_does_not_answer(half: Run) -> None:
    assert half("send", "TBW102", "x", "-b", "broker-a").code == 0
    result = half("tail", "TBW102", "-c", "1")
    assert result.code == 0
    assert result.err.startswith("rmq: broker-b: cannot connect")
