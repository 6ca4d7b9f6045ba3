"""The page about a cluster, and what it is read from."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import Admin, ClientError, NotFound, Producer, PushConsumer
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.message import Message
from rmqcli.doctor.finding import Finding, Status
from rmqcli.report.cluster.reading import read_cluster
from rmqcli.report.cluster.topics import HOURS, hours_of, read_topics
from rmqcli.report.page import MAX_ALIKE, attention
from tests.report.pages import HOSTILE, LONG, cluster_reading, of_cluster
from tests.report.parsing import read


def test_what_needs_attention_comes_first() -> None:
    page = of_cluster(cluster_reading())
    found = read(page)
    assert "Without broker-0" in found.text[: found.text.index("Summary")]
    assert page.index("Needs attention") < page.index('<section id="brokers">')
    for text in (
        "broker broker-0 10.0.0.0:10911: ",
        "disk broker-1 10.0.0.1:10911: 93% of the disk is used",
        "subscriptions mixed: orders '*' is subscribed to by 10.0.0.7@1 only",
        "dead letters billing: 42 dead letters",
        "lag billing orders: 1,234,567 messages wait, and no client runs",
        "offset recreated orders: an offset is beyond the end",
        "configuration: brokers differ in 2 properties",
        f"lag: 2 more of this kind, {MAX_ALIKE + 2} in all",
    ):
        assert text in found.text
    assert found.text.index("FAIL broker broker-0") < found.text.index("warn dead letters billing")


def test_tables_are_in_the_order_of_importance() -> None:
    found = read(of_cluster(cluster_reading()))
    brokers = found.tables["Brokers"]
    assert brokers[1][:3] == ["broker-0", "10.0.0.0:10911", "no answer"]
    assert brokers[2][:8] == [
        "broker-1", "10.0.0.1:10911", "4.9.8", "1.2k", "2.3k", "86.4M", "804.8 GiB", "93%",
    ]  # fmt: skip
    assert "86,419,754" in found.titles
    assert "864,197,532,086 bytes" in found.titles
    assert [row[:3] for row in found.tables["Lag"][1:3]] == [
        ["billing", "orders", "1.2M"],
        [read_name(HOSTILE), LONG, "12"],
    ]
    assert ["recreated", "orders", "unknown"] in [row[:3] for row in found.tables["Lag"]]
    assert found.tables["Dead letters"][1] == ["billing", "42", "2025-11-23 07:00:00"]
    assert found.tables["Configuration drift"][1:3] == [
        ["flushDiskType", "ASYNC_FLUSH", "broker-1, broker-3"],
        ["", "SYNC_FLUSH", "broker-2"],
    ]
    assert found.tables["Without an answer"][1][0] == "broker-0"


def read_name(name: str) -> str:
    """A name as a page shows it."""
    for character, shown in {
        "\x1b": r"\x1b",
        "\x07": r"\x07",
        "\u202e": r"\u202e",
        "\udc80": r"\x80",
    }.items():
        name = name.replace(character, shown)
    return name.replace("\n", "\\n")


def test_names_are_text() -> None:
    found = read(of_cluster(cluster_reading()))
    assert "script" not in found.tags
    assert sum(read_name(HOSTILE) == row[0] for row in found.tables["Topics"]) == 1
    assert any(title.startswith(f"{read_name(HOSTILE)}, 2025-11-22") for title in found.texts)


def test_a_page_has_a_bounded_size() -> None:
    page = of_cluster(cluster_reading(topics=10_000), count=50)
    found = read(page)
    assert len(found.tables["Topics"]) == 51
    assert "The first 50 of 10,000 topics are shown; the others have " in found.text
    assert "others" in found.text
    assert len(page) < 200_000


def test_of_a_kind_some_are_listed() -> None:
    alike = [Finding(Status.WARN, "lag", f"g{number}", "…") for number in range(MAX_ALIKE + 3)]
    found = attention([*alike, Finding(Status.OK, "disk", "", ""), Finding(Status.FAIL, "disk", "a", "")])
    assert (found[0].check, len(found)) == ("disk", MAX_ALIKE + 2)
    assert found[-1].text == f"3 more of this kind, {MAX_ALIKE + 3} in all"


async def test_a_lost_broker_is_named_and_costs_one_time_limit(autojump_clock: MockClock) -> None:
    async with (
        embedded_in_memory() as cluster,
        cluster.broker(broker_name="broker-b") as other,
        Admin(**cluster.client() | {"timeout": 3.0}) as admin,
    ):
        await admin.topics.create("orders")
        await admin.groups.create(SubscriptionGroupConfig(group_name="billing"))
        cluster.cut(other.broker_address, 3600)
        began = trio.current_time()
        found = await read_cluster(admin)
        assert trio.current_time() - began <= 4
    page = read(of_cluster(found))
    assert list(found.failures) == ["broker-b"]
    assert found.configs.keys() == {"broker-a"}
    assert page.tables["Brokers"][1][2] == "no answer"
    assert [one.name for one in found.topics] == ["orders"]
    assert "billing" in found.groups


async def test_a_page_about_some_brokers(autojump_clock: MockClock) -> None:
    async with (
        embedded_in_memory() as cluster,
        cluster.broker(broker_name="broker-b") as other,
        Admin(**cluster.client() | {"timeout": 3.0}) as admin,
    ):
        await admin.topics.create("everywhere")
        await admin.topics.create("elsewhere", brokers=["broker-b"])
        both = read(of_cluster(await read_cluster(admin)))
        cluster.cut(other.broker_address, 3600)
        found = await read_cluster(admin, brokers=["broker-a"])
        page = read(of_cluster(found))
        with pytest.raises(NotFound):
            await read_cluster(admin, cluster="none")
    assert [row[0] for row in both.tables["Brokers"][1:3]] == ["broker-a", "broker-b"]
    assert {row[0] for row in both.tables["Topics"][1:]} == {"everywhere", "elsewhere"}
    assert "broker-b" not in page.text
    assert (found.failures, [one.name for one in found.topics]) == ({}, ["everywhere"])


async def test_no_name_server_is_an_error(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, Admin(**cluster.client() | {"timeout": 1.0}) as admin:
        cluster.cut(cluster.namesrv, 3600)
        with pytest.raises(ClientError):
            await read_cluster(admin)


async def test_messages_are_counted_by_the_hour(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.report.cluster.topics.HOUR_MS", 1000)
    async with embedded_in_memory() as cluster, Admin(**cluster.client()) as admin:
        await admin.topics.create("orders")
        async with Producer("p", **cluster.client()) as producer:
            for count in (3, 0, 5):
                for number in range(count):
                    await producer.send(Message(topic="orders", body=b"%d" % number))
                await trio.sleep(1)
        topics = await read_topics(admin, ["orders"], {})
        hours = await hours_of(admin, topics)
    assert [one for one in hours.counts["orders"] if one] == [3, 5]
    assert len(hours.counts["orders"]) == HOURS
    assert topics[0].messages == 8


async def test_members_with_unlike_subscriptions(autojump_clock: MockClock) -> None:
    def on_messages(messages: object, context: object) -> None: ...

    async with embedded_in_memory() as cluster, Admin(**cluster.client()) as admin:
        for name in ("orders", "payments"):
            await admin.topics.create(name)
        async with (
            PushConsumer("g", {"orders": "*"}, on_messages, **cluster.client()),
            PushConsumer("g", {"payments": "*"}, on_messages, **cluster.client()),
        ):
            await trio.sleep(40)
            page = read(of_cluster(await read_cluster(admin)))
    assert ["g", "subscriptions"] in [row[:2] for row in page.tables["Subscriptions"]]


def test_a_wide_table_scrolls_in_its_place() -> None:
    """A phone shows the page at its width: only the table moves."""
    page = of_cluster(cluster_reading())
    assert (
        page.count("<table>") == page.count('<div class="scroll" tabindex="0" role="region" aria-label="') > 0
    )
    assert page.count("</table>\n</div>") == page.count("<table>")
    assert ".scroll { overflow-x: auto; }" in page


def test_no_group_with_messages_waiting_is_to_be_deleted() -> None:
    text = read(of_cluster(cluster_reading())).text
    assert "no client runs" in text
    assert "delete the group" not in text
