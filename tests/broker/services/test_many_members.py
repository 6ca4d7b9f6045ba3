"""Groups of many members, and members of many groups: others go on while everybody is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from rmqcli.broker.net.turns import FIRST_STEPS
from rmqcli.broker.services.clients import expire_clients
from tests.broker.support import FakeBroker, fake_broker

MANY = 4 * FIRST_STEPS
NOTIFY = 40


def told(broker: FakeBroker) -> int:
    """The notifications that the members of groups have received."""
    return sum(
        sum(command.code == NOTIFY for command in channel.pushed)  # type: ignore[attr-defined, misc]
        for group in broker.context.consumers.groups()
        for channel in group.channels
    )


async def fill_group(broker: FakeBroker) -> None:
    """Brings MANY members into group G, each after all others have been told of the one before."""
    for _ in range(MANY):
        await broker.client().heartbeat("G", "T")
        await trio.testing.wait_all_tasks_blocked()


@pytest.fixture(autouse=True)
def every_step_costs_a_turn(monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock) -> None:
    monkeypatch.setattr("rmqcli.broker.net.turns.TURN_SECONDS", 0)


async def test_members_of_a_large_group_are_told_in_steps(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        await fill_group(broker)
        before = told(broker)
        await broker.client().heartbeat("G", "T")
        assert told(broker) - before == FIRST_STEPS
        await trio.testing.wait_all_tasks_blocked()
        assert told(broker) - before == MANY + 1


async def test_a_change_while_members_are_told_is_told_to_all_once_more(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        await fill_group(broker)
        before = told(broker)
        late = [broker.client() for _ in range(3)]
        for client in late:
            await client.heartbeat("G", "T")
        await trio.testing.wait_all_tasks_blocked()
        assert [len(client.session.pushed) for client in late] == [2, 1, 1]
        assert told(broker) - before == 2 * MANY + 4
        assert broker.context.notifying == {}


async def test_the_others_of_many_groups_are_told_in_steps_that_one_has_left(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        leaving, staying = broker.client(), broker.client()
        for number in range(MANY):
            for client in (leaving, staying):
                await client.heartbeat(f"G{number}", "T")
        await trio.testing.wait_all_tasks_blocked()
        pushed, before = staying.session.pushed, len(staying.session.pushed)
        leaving.session.close()
        assert len(pushed) - before == FIRST_STEPS
        await trio.testing.wait_all_tasks_blocked()
        assert len(pushed) - before == MANY


async def test_a_connection_that_ended_leaves_its_groups_in_steps(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client, context = broker.client(), broker.context
        for number in range(MANY):
            await client.heartbeat(f"G{number}", "T")
        await trio.testing.wait_all_tasks_blocked()
        client.session.close()
        assert len(context.consumers.groups()) == MANY - FIRST_STEPS
        await trio.testing.wait_all_tasks_blocked()
        assert context.consumers.groups() == []


async def test_silent_members_of_many_groups_are_removed_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.broker.services.clients.CLIENT_EXPIRY_MS", -1)
    async with fake_broker(tmp_path) as broker:
        client, context = broker.client(), broker.context
        for number in range(MANY):
            await client.heartbeat(f"G{number}", "T")
        steps = expire_clients(context)
        next(steps)
        assert len(context.consumers.groups()) >= MANY - 1
        assert sum(1 for _ in steps) >= MANY
        assert context.consumers.groups() == []
        assert client.session.closed
