"""The rules of the tables that no request shows directly."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from rmqcli.broker.tables import (
    ClientChannel,
    ConsumerTable,
    GroupTable,
    OffsetTable,
    ProducerTable,
    TopicTable,
)
from rmqcli.broker.tables.topics import describe_topic, system_topics
from rmqcli.codec.bodies.config import SubscriptionGroupConfig, TopicConfig
from rmqcli.codec.bodies.heartbeat import ConsumerData
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper
from tests.broker.support import FakeSession


def table() -> TopicTable:
    return TopicTable(lambda: 5, system_topics(cluster="C", broker_name="B"))


def test_order_topics_of_the_name_server_are_marked() -> None:
    topics = table()
    topics.put(TopicConfig(topic_name="Ordered"))
    before = topics.version.counter
    assert topics.set_order_topics(["Ordered", "Unknown"])
    ordered = topics.get("Ordered")
    assert ordered is not None
    assert ordered.order
    assert topics.version.counter == before + 1
    assert not topics.set_order_topics(["Ordered"])
    assert topics.set_order_topics([])
    unmarked = topics.get("Ordered")
    assert unmarked is not None
    assert not unmarked.order


def test_a_change_is_a_new_config_and_a_new_version() -> None:
    topics = table()
    first, made = topics.ensure("T", 1)
    again, made_again = topics.ensure("T", 9)
    assert (made, made_again) == (True, False)
    assert again is first
    version = topics.version
    topics.put(TopicConfig(topic_name="T"))
    assert topics.get("T") is not first
    assert topics.version != version
    assert topics.remove("T")
    assert not topics.remove("T")


def test_topics_inherit_only_what_may_be_inherited() -> None:
    topics = table()
    assert topics.inherit("T", "BenchmarkTest", 4) is None
    assert topics.inherit("T", "None", 4) is None
    inherited = topics.inherit("T", "C", 4, sys_flag=1)
    assert inherited is not None
    assert (inherited.write_queue_nums, inherited.perm, inherited.topic_sys_flag) == (4, 6, 1)
    negative = topics.inherit("U", "TBW102", -5)
    assert negative is not None
    assert negative.write_queue_nums == 0
    topics.auto_create = False
    for default in ("TBW102", "C", "b"):
        assert topics.inherit("V", default, 4) is None


def test_a_saved_table_wins_over_the_topics_of_the_start() -> None:
    saved = table()
    saved.put(TopicConfig(topic_name="SELF_TEST_TOPIC", read_queue_nums=7))
    topics = table()
    topics.load(saved.wrapper())
    loaded = topics.get("SELF_TEST_TOPIC")
    assert loaded is not None
    assert loaded.read_queue_nums == 7
    assert topics.version == saved.version
    assert topics.is_system("C")
    assert not topics.is_system("Mine")


def test_a_topic_as_java_prints_it() -> None:
    text = describe_topic(TopicConfig(topic_name="T", perm=1, order=True))
    assert text == (
        "TopicConfig [topicName=T, readQueueNums=16, writeQueueNums=16, perm=--X, "
        "topicFilterType=SINGLE_TAG, topicSysFlag=0, order=true]"
    )


def test_system_groups_are_made_even_where_others_are_not() -> None:
    groups = GroupTable(lambda: 5, auto_create=False)
    assert groups.find("G") == (None, False)
    config, made = groups.find("CID_RMQ_SYS_TRANS")
    assert (config, made) == (SubscriptionGroupConfig(group_name="CID_RMQ_SYS_TRANS"), True)
    assert not groups.remove("G")


def test_offsets_say_when_they_changed() -> None:
    offsets = OffsetTable()
    changes: list[Callable[[], object]] = [
        lambda: offsets.commit("G", "T", 0, 5),
        lambda: offsets.load(offsets.wrapper()),
        lambda: offsets.commit("G", "T", 0, 5),
        lambda: offsets.remove_group("Unknown"),
        lambda: offsets.commit("H", "U", 1, 1),
    ]
    assert [(change(), offsets.dirty)[1] for change in changes] == [True, False, False, False, True]
    offsets.load(offsets.wrapper())
    offsets.remove_group("G")
    assert offsets.dirty
    assert (offsets.query("G", "T", 0), offsets.query("H", "U", 1)) == (-1, 1)
    assert (offsets.groups_of("T"), offsets.groups_of("U"), len(offsets)) == ([], ["H"], 1)
    offsets.clone("Nobody", "G", "U")
    assert offsets.topics_of("G") == []


def test_one_producer_connection_can_be_in_many_groups() -> None:
    producers = ProducerTable()
    session = FakeSession()
    for group in ("P", "Q"):
        producers.register(group, ClientChannel(session, "c", 0, 409, 1))
    assert set(producers.groups()) == {"P", "Q"}
    assert producers.groups_of(session) == ["P", "Q"]
    producers.unregister("Q", session)
    producers.unregister("P", session)
    assert producers.clients("P") is None
    producers.unregister("P", session)
    assert producers.groups() == {}


def test_the_ids_of_a_producer_end_with_its_connections() -> None:
    producers, old, new = ProducerTable(), FakeSession(), FakeSession()

    def register(group: str, client_id: str, session: FakeSession) -> None:
        producers.register(group, ClientChannel(session, client_id, 0, 409, 1))

    def connection(client_id: str) -> object:
        found = producers.find(client_id)
        return None if found is None else found.channel

    register("P", "a", old)
    register("P", "b", old)
    assert (connection("a"), connection("b")) == (None, old), "a connection renamed itself"
    register("Q", "c", old)
    producers.unregister("P", old)
    assert (connection("b"), connection("c")) == (None, old)
    register("Q", "c", new)
    producers.unregister("Q", old)
    assert connection("c") is new
    producers.unregister("Q", new)
    assert connection("c") is None


def test_another_account_does_not_take_the_place_of_a_client() -> None:
    producers, first, second, later = ProducerTable(), FakeSession(), FakeSession(), FakeSession()
    for session, key in ((first, "asker-1"), (second, "stranger"), (later, "asker-1")):
        producers.register("P", ClientChannel(session, "c", 0, 409, 1, key))
        found = producers.find("c")
        assert found is not None and found.channel is (first if session is second else session)
    later.closed = True
    producers.register("P", ClientChannel(second, "c", 0, 409, 1, "stranger"))
    found = producers.find("c")
    assert found is not None and found.channel is second


class ComparedId(str):
    """A client id that counts how often it is compared with another."""

    comparisons = 0

    def __ne__(self, other: object) -> bool:
        ComparedId.comparisons += 1
        return super().__ne__(other)

    __hash__ = str.__hash__


def test_to_leave_a_group_costs_the_same_however_many_others_there_are() -> None:
    """4,096 groups, each with an id of its own, took 1.8 s to leave."""
    producers, session = ProducerTable(), FakeSession()
    for number in range(100):
        producers.register(f"P{number}", ClientChannel(session, ComparedId(f"c{number}"), 0, 409, 1))
    for group in producers.groups_of(session):
        producers.unregister(group, session)
    assert ComparedId.comparisons < 200
    assert producers.find("c99") is None


def test_a_producer_whose_connection_is_closed_is_not_asked() -> None:
    producers = ProducerTable()
    sessions = [FakeSession() for _ in range(3)]
    for number, session in enumerate(sessions):
        producers.register("P", ClientChannel(session, f"c{number}", 0, 409, 1))
    sessions[1].closed = True
    asked = [client.client_id for _ in range(4) if (client := producers.available("P")) is not None]
    assert sorted(asked) == ["c0", "c0", "c2", "c2"]
    sessions[0].closed = sessions[2].closed = True
    assert producers.available("P") is None


def test_what_a_new_topic_inherits() -> None:
    topics = table()
    topics.put(TopicConfig(topic_name="Default", write_queue_nums=3, perm=7, topic_filter_type="MULTI_TAG"))
    made = topics.inherit("T", "Default", 9)
    assert made is not None
    assert (made.write_queue_nums, made.read_queue_nums, made.perm) == (3, 3, 6)
    assert made.topic_filter_type == "MULTI_TAG"
    none = topics.inherit("U", "Default", -5)
    assert none is not None
    assert (none.write_queue_nums, none.read_queue_nums) == (0, 0)


def test_offsets_of_broadcasting_clients_are_of_no_group() -> None:
    """A store folder of 5.3.3 has them; they are kept for it."""
    offsets = OffsetTable()
    table = {"T@G": {0: 5}, "T@G@broadcast": {0: 4}}
    offsets.load(ConsumerOffsetSerializeWrapper(offset_table=table))
    assert (offsets.groups_of("T"), offsets.topics_of("G@broadcast")) == (["G"], [])
    assert offsets.wrapper().offset_table == table


def test_nothing_is_kept_of_a_connection_that_left() -> None:
    producers, consumers = ProducerTable(), ConsumerTable()
    session = FakeSession()
    client = ClientChannel(session, "id", 0, 0, 0)
    for group in ("A", "B"):
        producers.register(group, client)
        consumers.register(ConsumerData(group_name=group), client)
    for group in ("A", "B"):
        producers.unregister(group, session)
        assert consumers.unregister(group, session)
    kept = weakref.ref(session)
    del session, client
    assert kept() is None
