"""What many brokers and topics cost a name server: no step looks at all of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator
from typing import Any

import pytest
import trio

from rmqcli.broker.errors import Refusal
from rmqcli.broker.namesrv.broker_handlers import MOST_OF_CLIENT
from rmqcli.broker.namesrv.kv_config import EACH_ENTRY, KVConfig
from rmqcli.broker.namesrv.route_table import Broker, LiveBroker, RouteTable
from rmqcli.codec.bodies.config import DataVersion
from rmqcli.codec.bodies.route import QueueData
from rmqcli.codec.codes import ResponseCode
from tests.broker.namesrv.support import NameServerUnderTest, topic
from tests.broker.support import done

MANY = 50


def broker(name: str, address: str = "", broker_id: int = 0) -> Broker:
    return Broker("C", name, broker_id, address or f"{name}:10911")


def live(owner: Hashable, counter: int = 1) -> LiveBroker:
    return LiveBroker(1000, DataVersion(counter=counter), owner, "")


def names(count: int, prefix: str) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


class Unlisted(dict[Any, Any]):
    """A table that nobody may go through."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("all entries are looked at")

    def items(self) -> Any:
        raise AssertionError("all entries are looked at")

    values = keys = items


@pytest.fixture
def routes() -> RouteTable:
    """MANY brokers of one connection, each with a topic of its own and a shared one."""
    table = RouteTable()
    for name in names(MANY, "b"):
        table.register(broker(name), live("one"), [topic(f"of-{name}"), topic("shared")])
    return table


@pytest.mark.parametrize("leaves", ["unregistered", "lost"])
def test_a_broker_leaves_without_a_look_at_the_others(routes: RouteTable, leaves: str) -> None:
    """4,000 brokers of one connection took 17 s to leave."""
    table = RouteTable()
    for name in names(MANY, "b"):
        table.register(broker(name), live(name), [topic(f"of-{name}")])
    for attribute in ("_topics", "_brokers", "_live", "_clusters"):
        setattr(table, attribute, Unlisted(getattr(table, attribute)))
    done(table.unregister(broker("b7")) if leaves == "unregistered" else table.remove_owner("b7"))
    assert table.route("of-b7") is None
    assert table.route("of-b8") is not None


def test_brokers_of_a_lost_connection_leave_in_steps(routes: RouteTable) -> None:
    steps = routes.remove_owner("one")
    next(steps)
    assert len(routes.topics()) >= MANY - 1
    assert sum(1 for _ in steps) >= 2 * MANY - 1
    assert routes.topics() == []
    assert routes.cluster_info() is not None
    assert done(routes.cluster_info()).broker_addr_table == {}
    assert done(routes.cluster_info()).cluster_addr_table == {}


def test_silent_brokers_leave_in_steps(routes: RouteTable) -> None:
    steps = routes.expire(2000)
    next(steps)
    assert len(routes.topics()) >= MANY - 1
    done(steps)
    assert routes.topics() == []


def test_no_route_names_a_broker_that_is_leaving(routes: RouteTable) -> None:
    steps = routes.unregister(broker("b0"))
    next(steps)
    found = routes.route("shared")
    assert found is not None
    assert len(found.queue_datas) == len(found.broker_datas) == MANY - 1
    done(steps)


def test_a_broker_that_comes_back_while_it_leaves_keeps_its_topics(routes: RouteTable) -> None:
    """It leaves topic by topic, and may register again between two of them."""
    steps = routes.unregister(broker("b0"))
    next(steps)
    routes.register(broker("b0"), live("two"), [topic("of-b0"), topic("shared")])
    done(steps)
    assert routes.route("of-b0") is not None
    done(routes.remove_owner("two"))
    assert routes.route("of-b0") is None


def test_a_topic_that_is_deleted_while_its_broker_leaves(routes: RouteTable) -> None:
    steps = routes.unregister(broker("b0"))
    next(steps)
    routes.delete_topic("shared")
    routes.delete_topic("of-b0")
    done(steps)
    assert routes.route("shared") is None
    assert len(routes.topics()) == MANY - 1


def test_a_connection_that_ends_in_the_middle_of_a_registration_leaves_nothing() -> None:
    table = RouteTable()
    steps = table.registering(broker("b"), live("one"), [topic(name) for name in names(MANY, "t")])
    for _ in range(5):
        next(steps)
    steps.close()
    done(table.remove_owner("one"))
    assert table.topics() == []
    assert done(table.cluster_info()).broker_addr_table == {}


def test_a_broker_that_unregisters_in_the_middle_of_a_registration_leaves_nothing() -> None:
    table = RouteTable()
    steps = table.registering(broker("b"), live("one"), [topic(name) for name in names(MANY, "t")])
    next(steps)
    done(table.unregister(broker("b")))
    done(steps)
    assert table.topics() == []


def test_one_name_with_many_ids_and_an_address_that_moves() -> None:
    table = RouteTable()
    for number in range(MANY):
        table.register(broker("b", f"h:{number}", number), live(number), [])
    table.register(broker("b", "h:7", 0), live("moved"), [])
    assert table.member_group("b")[0] == "h:7"
    assert 7 not in table.member_group("b")
    done(table.unregister(broker("b", "other:1", 3)))
    assert 3 not in table.member_group("b")
    for owner in (*range(MANY), "moved"):
        done(table.remove_owner(owner))
    assert table.member_group("b") == {}


@pytest.mark.parametrize("what", ["wipe", "add", "cluster", "flags", "info", "queues"])
def test_what_concerns_many_topics_or_brokers_is_done_in_steps(
    routes: RouteTable, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For 90,000 topics 27 to 296 ms; cluster info of 4,000 brokers 16 ms; 10,000 queues 91 ms."""
    monkeypatch.setattr("rmqcli.broker.namesrv.route_table.TOPICS_PER_STEP", 1)
    routes.register(broker("many"), live("other"), [topic(name) for name in names(MANY, "t")])
    queues = [QueueData(name, 1, 1, 6) for name in names(MANY, "b")]
    every: dict[str, Callable[[], Generator[None, None, object]]] = {
        "wipe": lambda: routes.wipe_write_permission("many"),
        "add": lambda: routes.add_write_permission("many"),
        "cluster": lambda: routes.topics_of_cluster("C"),
        "flags": lambda: routes.flagged_topics(1, 0),
        "info": routes.cluster_info,
        "queues": lambda: routes.add_queues("New", queues),
    }
    assert sum(1 for _ in every[what]()) >= MANY


def test_one_connection_registers_so_many_brokers_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_OF_CLIENT >= 100
    monkeypatch.setattr("rmqcli.broker.namesrv.broker_handlers.MOST_OF_CLIENT", 2)
    server = NameServerUnderTest()
    codes = [server.register(topic("T"), name=f"b{n}", address=f"h{n}:1").code for n in (0, 1, 1, 2)]
    assert codes == [ResponseCode.SUCCESS] * 3 + [ResponseCode.SYSTEM_ERROR]


async def test_key_value_entries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are saved at each change, and sent with each registration."""
    monkeypatch.setattr("rmqcli.broker.namesrv.kv_config.MOST_CHARACTERS", 2 * (EACH_ENTRY + 10))
    kv = KVConfig()
    await kv.put("n", "a", "12345678")
    await kv.put("n", "b", "12345678")
    with pytest.raises(Refusal, match="at most"):
        await kv.put("n", "a", "123456789")
    with pytest.raises(Refusal, match="at most"):
        await kv.put("m", "c", "")
    await kv.put("n", "a", "1")
    await kv.put("n", "b", "123456781234567")
    await kv.delete("n", "a")
    await trio.lowlevel.checkpoint()
    await kv.put("m", "c", "1")
    assert (kv.namespace("n"), kv.namespace("m")) == ({"b": "123456781234567"}, {"c": "1"})
