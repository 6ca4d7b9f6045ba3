"""Repeated kill -9 under load on one store folder: acknowledged messages survive, and queues are whole."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest
import trio

from tests.crash.real_broker import Acked, Moment, check_store, load, running
from tests.support import PATIENCE


@pytest.mark.parametrize(("flush", "most"), [("ASYNC_FLUSH", 3000), ("SYNC_FLUSH", 300)])
def test_what_was_acknowledged_survives(
    tmp_path: Path, request: pytest.FixtureRequest, flush: str, most: int
) -> None:
    rounds = request.config.getoption("--crash-rounds") // 2
    chance = random.Random(4711)
    acked: Acked = {}
    for number in range(rounds):
        with running(tmp_path, flush) as (process, namesrv):
            moment = Moment(chance.randint(1, most), chance.uniform(0.0, 0.1))
            trio.run(load, namesrv, acked, number, moment, process.kill)
            process.wait(PATIENCE)
    with running(tmp_path, flush) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert not (tmp_path / "abort").exists()

    check_store(tmp_path, acked)
