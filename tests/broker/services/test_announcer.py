"""Registration of new topics: at once, together when they arrive together, with a bounded wait."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from rmqcli.broker.services.registration import MAX_WAIT_SECONDS, Announcer
from rmqcli.broker.supervisor import Supervisor
from rmqcli.codec.bodies.config import TopicConfig
from tests.broker.support import fake_broker, send_header


class Registry:
    """Takes `seconds` for each registration."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.calls: list[list[str] | None] = []

    async def register(self, configs: Sequence[TopicConfig] | None) -> None:
        await trio.sleep(self.seconds)
        self.calls.append(None if configs is None else [config.topic_name for config in configs])


def is_settled(announcer: Announcer) -> bool:
    """True when no change waits for a registration."""
    return announcer._register is None or announcer._done == announcer.asked


async def test_changes_during_a_registration_go_together(
    nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    registry = Registry(1)
    announcer = Announcer(registry.register)
    nursery.start_soon(announcer.run)
    announcer.announce([TopicConfig(topic_name="A")])
    await trio.sleep(0.5)
    announcer.announce([TopicConfig(topic_name="B")])
    announcer.announce([TopicConfig(topic_name="C")])
    settled = [is_settled(announcer)]
    await announcer.settled()
    settled.append(is_settled(announcer))
    assert settled == [False, True]
    assert registry.calls == [["A"], ["B", "C"]]
    announcer.announce([])
    announcer.announce([TopicConfig(topic_name="D")])
    await announcer.settled()
    assert registry.calls[2] is None, "everything, and so D too"


async def test_waiting_is_bounded(nursery: trio.Nursery, autojump_clock: trio.abc.Clock) -> None:
    announcer = Announcer(Registry(100).register)
    nursery.start_soon(announcer.run)
    announcer.announce([])
    start = trio.current_time()
    await announcer.settled()
    assert trio.current_time() - start == pytest.approx(MAX_WAIT_SECONDS, abs=0.1)


async def test_the_creator_of_a_topic_gets_the_reply_when_it_is_registered(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    registry = Registry(0.5)
    async with fake_broker(tmp_path) as broker:
        broker.context.announcer = announcer = Announcer(registry.register)
        broker.nursery.start_soon(announcer.run)
        client = broker.client()
        opaque = client.post(310, send_header("T"), b"x")
        await trio.sleep(0.4)
        assert client.replies(opaque) == []
        assert (await broker.client().send("T")).code == 0, "only the creator waits"
        assert (await client.wait(opaque)).code == 0
        assert registry.calls == [["T"]]
        assert (await client.send("T")).code == 0, "the second send waits for nothing"
        create = {
            "topic": "U",
            "defaultTopic": "TBW102",
            "readQueueNums": "1",
            "writeQueueNums": "1",
            "perm": "6",
        }
        opaque = client.post(17, create)
        assert client.replies(opaque) == []
        assert (await client.wait(opaque)).code == 0
        assert registry.calls[-1] == ["U"]


async def test_a_failed_registration_is_retried_with_all_changes(
    nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    registry = Registry(0)
    failures = [OSError()]

    async def register(configs: Sequence[TopicConfig] | None) -> None:
        if failures:
            announcer.announce([TopicConfig(topic_name="B")])
            raise failures.pop()
        await registry.register(configs)

    announcer = Announcer(register)
    nursery.start_soon(Supervisor().keep_running, "announcer", announcer.run)
    announcer.announce([TopicConfig(topic_name="A")])
    await announcer.settled()
    assert registry.calls == [["A", "B"]]
    assert is_settled(announcer)
