"""`rmq broker advance`: the clock of `rmq up` moves, that of a broker with a folder does not."""

from __future__ import annotations

import subprocess
from pathlib import Path

from rmqcli.client import Message
from rmqcli.client.sync import Producer
from rmqcli.testing import expect_message
from tests.processes import running
from tests.support import PATIENCE, RMQ


class Running:
    def __init__(self, words: dict[str, str]) -> None:
        self.namesrv = words["namesrv"]

    def advance(self, duration: str) -> subprocess.CompletedProcess[str]:
        command = [*RMQ, "-n", self.namesrv, "broker", "advance", duration]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_a_timer_that_is_due_by_then_is_delivered() -> None:
    with running(["up", "--port", "0", "--namesrv-port", "0"]) as (_, words):
        cluster = Running(words)
        with Producer(namesrv=cluster.namesrv) as producer:
            producer.send(Message.of("reminders", b"pay", delay=3600))
            done = cluster.advance("1h")
            assert (done.returncode, done.stderr) == (0, "advanced the clock by 1h on broker-a\n")
            assert expect_message(cluster, "reminders").body == b"pay"
        done = cluster.advance("54w")
        assert done.returncode == 1 and "at most a year at once" in done.stderr


def test_a_broker_with_a_folder_refuses(tmp_path: Path) -> None:
    up = ["up", "--store", str(tmp_path), "--port", "0", "--namesrv-port", "0"]
    with running(up) as (_, words):
        done = Running(words).advance("1h")
    assert done.returncode == 1 and "does not move: only those of rmq up without --store" in done.stderr
