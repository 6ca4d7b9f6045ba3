"""Traces: the text of records, batches, limits, and what producers and consumers write."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from rmqcli.client import ClientInstance, Producer, TransactionProducer, TransactionState
from rmqcli.client.push.tracing import ConsumeTracer, traced
from rmqcli.client.trace.dispatcher import (
    BATCH,
    MAX_BODY,
    MAX_KEYS,
    MAX_WAITING,
    SEND_TIMEOUT,
    TRACE_TOPIC,
    TraceDispatcher,
    pack,
)
from rmqcli.client.trace.records import (
    ConsumeEnd,
    ConsumeStart,
    ContextCode,
    MessageType,
    Published,
    TraceRecord,
    TransactionEnd,
    decode_trace,
    encode_record,
)
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.compression import decompress
from rmqcli.codec.headers.base import from_ext
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.properties import decode_properties, encode_properties
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.scripted import Network, sent, silent
from tests.client.sending import NAMESRV, SEND, TOPIC, A, Cluster, producing
from tests.codec.samples import make_record

EXAMPLES: list[tuple[str, TraceRecord]] = [
    (
        "Pub|17|R|G|T|ID|TagA|k1 k2|1.2.3.4:10911|5|7|0|OFF|true",
        Published(
            17, "R", "G", "T", "ID", "TagA", "k1 k2", "1.2.3.4:10911", 5, 7, MessageType.NORMAL, "OFF", True
        ),
    ),
    (
        "Pub|17|R|G|T|ID|null|null|h:1|5|7|3|null|false",
        Published(17, "R", "G", "T", "ID", None, None, "h:1", 5, 7, MessageType.DELAY, None, False),
    ),
    ("SubBefore|18|null|CG|REQ|ID|2|k1", ConsumeStart(18, None, "CG", "REQ", "ID", 2, "k1")),
    (
        "SubAfter|REQ|ID|9|true|k1|4|19|CG",
        ConsumeEnd("REQ", "ID", 9, True, "k1", ContextCode.FAILED, 19, "CG"),
    ),
    (
        "EndTransaction|20|R|G|T|ID|TagA|null|h:1|2|TX|COMMIT_MESSAGE|false",
        TransactionEnd(
            20, "R", "G", "T", "ID", "TagA", None, "h:1", MessageType.COMMIT, "TX", "COMMIT_MESSAGE", False
        ),
    ),
]


def wire(text: str) -> str:
    return text.replace("|", "\x01") + "\x02"


@pytest.mark.parametrize(("text", "record"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_records_in_javas_form(text: str, record: TraceRecord) -> None:
    assert encode_record(record) == wire(text)
    assert decode_trace(wire(text)) == [record]


@pytest.mark.parametrize(
    ("text", "record"),
    [
        # Without the offset id, then with the client's address behind
        (
            "Pub|17|R|G|T|ID|a|k|h:1|5|7|0|true",
            Published(17, "R", "G", "T", "ID", "a", "k", "h:1", 5, 7, MessageType.NORMAL, None, True),
        ),
        (
            "Pub|17|R|G|T|ID|a|k|h:1|5|7|0|OFF|true|10.0.0.9",
            Published(17, "R", "G", "T", "ID", "a", "k", "h:1", 5, 7, MessageType.NORMAL, "OFF", True),
        ),
        ("SubAfter|REQ|ID|9|false|k1", ConsumeEnd("REQ", "ID", 9, False, "k1")),
        ("SubAfter|REQ|ID|9|true|k1|1", ConsumeEnd("REQ", "ID", 9, True, "k1", ContextCode.TIME_OUT)),
    ],
)
def test_records_of_older_clients(text: str, record: TraceRecord) -> None:
    assert decode_trace(wire(text)) == [record]


def test_unreadable_records_are_skipped() -> None:
    good = wire(EXAMPLES[2][0])
    bad = [wire("Recall|1|R|G|T|ID|true"), wire("Pub|x|R"), wire("SubAfter|REQ|ID|9|true|k|99|19|CG"), "\x02"]
    assert decode_trace(good.join(bad)) == [EXAMPLES[2][1]] * 3


@example("SubAfter\x01\x01\x010\x01\x01")
@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from(["Pub", "SubAfter", "SubBefore", "\x01", "\x02", "1"])).map("".join)
)
def test_no_text_is_an_error(text: str) -> None:
    for record in decode_trace(text):
        assert decode_trace(encode_record(record))[0].msg_id == record.msg_id


def test_separators_inside_of_a_value() -> None:
    record = ConsumeStart(18, "R", "CG", "REQ", "ID", 2, "a\x01b\x02c")
    assert decode_trace(encode_record(record)) == [record._replace(keys="a b c")]


def start(msg_id: str, keys: str | None = None) -> ConsumeStart:
    return ConsumeStart(1, "R", "CG", "REQ", msg_id, 0, keys)


def test_a_message_names_all_ids_and_keys_once() -> None:
    records = [start("A", "k1 k2"), start("B", "k2"), start("A", None)]
    ((message, count),) = pack(records, "TT")
    assert (message.topic, count) == ("TT", 3)
    assert message.keys == ["A", "k1", "k2", "B"]
    assert decode_trace(message.body.decode()) == records


def test_messages_stay_within_the_limits() -> None:
    records = [start(f"ID{number:030}", "k" * 900) for number in range(300)]
    records += [start(f"X{number}", " ".join(f"{number}-{k}" for k in range(1000))) for number in range(9)]
    found = list(pack(records, "TT"))
    assert [record for message, _ in found for record in decode_trace(message.body.decode())] == records
    assert sum(count for _, count in found) == len(records)
    for message, count in found:
        assert len(message.body) <= MAX_BODY
        assert len(" ".join(message.keys)) <= MAX_KEYS
        named = set(message.keys)
        assert {record.msg_id for record in decode_trace(message.body.decode())} <= named
        assert count > 1
    last = found[-1][0]
    assert {"X8", "8-0", "8-999"} <= set(last.keys)


def test_keys_that_no_message_could_carry() -> None:
    record = start("ID", " ".join(f"key{number}" for number in range(4000)))
    ((message, _),) = pack([record], "TT")
    assert message.keys == ["ID"]
    assert decode_trace(message.body.decode()) == [record]


@pytest.fixture
def cluster(network: Network) -> Cluster:
    return Cluster(
        network, {TOPIC: {"broker-a": 1}, TRACE_TOPIC: {"broker-b": 1}, "own_traces": {"broker-b": 1}}
    )


def traces(cluster: Cluster) -> list[tuple[SendMessageRequestHeaderV2, list[str], list[TraceRecord]]]:
    """The trace messages of the other broker: header, keys, records."""
    found = []
    for command in cluster.b.asked:
        if command.code == SEND:
            header = from_ext(SendMessageRequestHeaderV2, command.ext_fields)
            keys = decode_properties(header.properties or "")["KEYS"].split(" ")
            body = bytes(command.body)
            text = decompress(body, header.sys_flag) if header.sys_flag else body
            found.append((header, keys, decode_trace(text.decode())))
    return found


async def test_a_send_is_traced(cluster: Cluster, autojump_clock: Any) -> None:
    async with producing(cluster.network, trace=True, now_ms=lambda: 1000) as producer:
        result = await producer.send(Message.of(TOPIC, b"hello", tags="t", keys=["k1", "k2"]))
        assert traces(cluster) == []
        await trio.sleep(1)
        ((header, keys, records),) = traces(cluster)
    assert header.topic == TRACE_TOPIC
    assert header.producer_group.startswith("_INNER_TRACE_PRODUCER-PG-PRODUCE-")
    assert keys == [result.msg_id, "k1", "k2"]
    assert records == [
        Published(
            1000,
            "R1",
            "PG",
            TOPIC,
            result.msg_id,
            "t",
            "k1 k2",
            A,
            5,
            0,
            MessageType.NORMAL,
            "0A0000010000277A0000000000000000",
            True,
        )
    ]


async def test_messages_that_are_not_traced(cluster: Cluster, autojump_clock: Any) -> None:
    def untraced(command: RemotingCommand) -> RemotingCommand:
        answer = sent(command)
        assert answer.ext_fields is not None
        answer.ext_fields["TRACE_ON"] = "false"
        return answer

    cluster.a.replies[SEND] = untraced
    async with producing(cluster.network, trace=True) as producer:
        result = await producer.send(Message.of(TOPIC, b"x"))
        await producer.send_oneway(Message.of(TOPIC, b"x"))
        await trio.sleep(1)
    assert not result.trace_on
    assert traces(cluster) == []


async def test_a_batch_and_another_topic(cluster: Cluster, autojump_clock: Any) -> None:
    def stored(command: RemotingCommand) -> RemotingCommand:
        answer = sent(command)
        assert answer.ext_fields is not None
        answer.ext_fields["msgId"] = "OFF1,OFF2"
        return answer

    cluster.a.replies[RequestCode.SEND_BATCH_MESSAGE] = stored
    async with producing(cluster.network, trace="own_traces") as producer:
        result = await producer.send_batch([Message.of(TOPIC, b"1", keys="k"), Message.of(TOPIC, b"22")])
    ((header, keys, records),) = traces(cluster)
    first, second = result.msg_id.split(",")
    assert (header.topic, keys) == ("own_traces", [first, "k", second])
    assert [(r.msg_id, r.offset_msg_id, r.body_length) for r in records if isinstance(r, Published)] == [
        (first, "OFF1", 1),
        (second, "OFF2", 2),
    ]


async def test_leaving_sends_waiting_records_for_a_short_time(cluster: Cluster, autojump_clock: Any) -> None:
    async with producing(cluster.network, trace=True) as producer:
        await producer.send(Message.of(TOPIC, b"x"))
    assert len(traces(cluster)) == 1
    cluster.b.replies[SEND] = silent
    async with producing(cluster.network, trace=True) as producer:
        await producer.send(Message.of(TOPIC, b"x"))
        started = trio.current_time()
    assert trio.current_time() - started < 2
    assert producer.traces_dropped == 1


async def test_transactions_are_traced(cluster: Cluster, autojump_clock: Any) -> None:
    async def local(message: Message) -> TransactionState:
        return TransactionState.COMMIT_MESSAGE

    async def check(message: MessageExt) -> TransactionState:
        return TransactionState.UNKNOW

    async with TransactionProducer(
        "TG", check, namesrv=NAMESRV, open_stream=cluster.network.open_stream, trace=True
    ) as producer:
        result = await producer.send_in_transaction(Message.of(TOPIC, b"x", keys="k"), local)
    records = [record for _, _, part in traces(cluster) for record in part]
    assert [type(record) for record in records] == [Published, TransactionEnd]
    half, end = records
    assert isinstance(half, Published)
    assert isinstance(end, TransactionEnd)
    assert half.message_type is MessageType.HALF
    assert end[1:] == (
        "R1",
        "TG",
        TOPIC,
        result.sent.msg_id,
        None,
        "k",
        A,
        MessageType.COMMIT,
        result.sent.msg_id,
        "COMMIT_MESSAGE",
        False,
    )


def consumed(msg_id: str, **properties: str) -> MessageExt:
    named = {"UNIQ_KEY": msg_id, "MSG_REGION": "R9", **properties}
    return decode_record(make_record(reconsume_times=3, properties=encode_properties(named)))


async def test_consumption_is_traced(cluster: Cluster, autojump_clock: Any) -> None:
    now = 5000

    async with ClientInstance(
        NAMESRV, open_stream=cluster.network.open_stream, now_ms=lambda: now
    ) as instance:
        tracer = ConsumeTracer(instance, "CG")
        await tracer.start()
        mark = tracer.before([consumed("A", KEYS="k"), consumed("B", TRACE_ON="false"), consumed("C")])
        now = 5009
        tracer.after(mark, False, ContextCode.EXCEPTION)
        await tracer.close()
    ((header, keys, records),) = traces(cluster)
    request_id = records[0].request_id if isinstance(records[0], ConsumeStart) else ""
    assert header.producer_group.startswith("_INNER_TRACE_PRODUCER-CG-CONSUME-")
    assert keys == ["A", "k", "C"]
    assert len(request_id) == 32
    assert records == [
        ConsumeStart(5000, "R9", "CG", request_id, "A", 3, "k"),
        ConsumeStart(5000, "R9", "CG", request_id, "C", 3, None),
        ConsumeEnd(request_id, "A", 4, False, "k", ContextCode.EXCEPTION, 5009, "CG"),
        ConsumeEnd(request_id, "C", 4, False, None, ContextCode.EXCEPTION, 5009, "CG"),
    ]


async def test_batches_of_a_hundred_at_once_and_the_rest_after_a_while(
    cluster: Cluster, autojump_clock: Any
) -> None:
    async with ClientInstance(NAMESRV, open_stream=cluster.network.open_stream) as instance:
        dispatcher = TraceDispatcher(instance, Producer, "G", "CONSUME", TRACE_TOPIC)
        await dispatcher.start()
        dispatcher.put(start(f"ID{number}") for number in range(BATCH + 1))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert [len(records) for _, _, records in traces(cluster)] == [BATCH]
        await trio.sleep(0.12)
        assert [len(records) for _, _, records in traces(cluster)] == [BATCH, 1]
        await dispatcher.close()


async def test_full_means_dropped_and_counted(cluster: Cluster, autojump_clock: Any) -> None:
    async with ClientInstance(NAMESRV, open_stream=cluster.network.open_stream) as instance:
        dispatcher = TraceDispatcher(instance, Producer, "G", "CONSUME", TRACE_TOPIC)
        await dispatcher.start()
        dispatcher.put(start(f"ID{number}") for number in range(MAX_WAITING + 7))
        assert dispatcher.dropped == 7
        await dispatcher.close()
    assert sum(len(records) for _, _, records in traces(cluster)) == MAX_WAITING


async def test_who_waits_for_room_loses_nothing(cluster: Cluster, autojump_clock: Any) -> None:
    async with ClientInstance(NAMESRV, open_stream=cluster.network.open_stream) as instance:
        dispatcher = TraceDispatcher(instance, Producer, "G", "CONSUME", TRACE_TOPIC, waits=True)
        await dispatcher.start()
        dispatcher.put(start(f"ID{number}") for number in range(MAX_WAITING + 7))
        assert await dispatcher.room() == 0.0, "a tenth of a second passes only while less than a batch waits"
        assert BATCH <= sum(len(records) for _, _, records in traces(cluster)) <= 2 * BATCH
        await dispatcher.close()
    assert dispatcher.dropped == 0
    assert sum(len(records) for _, _, records in traces(cluster)) == MAX_WAITING + 7


async def test_nobody_waits_for_room_once_traces_fail(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = silent
    async with ClientInstance(NAMESRV, open_stream=cluster.network.open_stream) as instance:
        dispatcher = TraceDispatcher(instance, Producer, "G", "CONSUME", TRACE_TOPIC, waits=True)
        await dispatcher.start()
        dispatcher.put(start(f"ID{number}") for number in range(MAX_WAITING + BATCH))
        assert await dispatcher.room() == pytest.approx(SEND_TIMEOUT)
        dispatcher.put(start(f"ID{number}") for number in range(MAX_WAITING))
        assert await dispatcher.room() == 0.0
        # Of them a batch that failed; another may have made room before.
        assert MAX_WAITING <= dispatcher.dropped <= MAX_WAITING + BATCH
        begun = trio.current_time()
        await dispatcher.close()
        assert trio.current_time() - begun < 2


@pytest.mark.parametrize("waits", [False, True])
async def test_a_producer_that_waits_for_its_traces_drops_none(
    cluster: Cluster, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """Forty tasks send at once while five traces may wait; each of them is a message."""
    for name, value in (("BATCH", 1), ("MAX_WAITING", 5)):
        monkeypatch.setattr(f"rmqcli.client.trace.dispatcher.{name}", value)
    async with producing(cluster.network, trace=True, trace_waits=waits) as producer:
        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(producer.send, Message.of(TOPIC, b"x"))
        for _ in range(10):
            await producer.send(Message.of(TOPIC, b"x"))
    assert (producer.traces_dropped == 0) is waits
    assert sum(len(records) for _, _, records in traces(cluster)) == 50 - producer.traces_dropped


async def test_a_trace_topic_that_is_not_there_costs_the_traces_only(
    cluster: Cluster, autojump_clock: Any
) -> None:
    async with ClientInstance(NAMESRV, open_stream=cluster.network.open_stream) as instance:
        dispatcher = TraceDispatcher(instance, Producer, "G" * 250, "CONSUME", "missing")
        await dispatcher.start()
        dispatcher.put([start("A"), start("B")])
        await dispatcher.close()
        assert dispatcher.dropped == 2


@pytest.mark.parametrize(
    ("takes", "result", "code", "success"),
    [
        (1, "good", ContextCode.SUCCESS, True),
        (1, "bad", ContextCode.FAILED, False),
        (1, None, ContextCode.RETURN_NULL, False),
        (900, "good", ContextCode.TIME_OUT, True),
        (1, LookupError(), ContextCode.EXCEPTION, False),
    ],
)
async def test_how_a_listener_ends(
    cluster: Cluster, takes: float, result: Any, code: ContextCode, success: bool, autojump_clock: Any
) -> None:
    async def listener(messages: list[MessageExt], context: object) -> Any:
        await trio.sleep(takes)
        if isinstance(result, Exception):
            raise result
        return result

    async with ClientInstance(
        NAMESRV, open_stream=cluster.network.open_stream, now_ms=lambda: round(trio.current_time() * 1000)
    ) as instance:
        tracer = ConsumeTracer(instance, "CG")
        await tracer.start()
        call = traced(listener, tracer, {"good"}, 900)
        if isinstance(result, Exception):
            with pytest.raises(LookupError):
                await call([consumed("A")], None)
        else:
            assert await call([consumed("A")], None) == result
        with trio.move_on_after(0.5):
            await call([consumed("B")], None)
        await tracer.close()
    records = [record for _, _, part in traces(cluster) for record in part]
    (end,) = [record for record in records if isinstance(record, ConsumeEnd)]
    assert (end.msg_id, end.context_code, end.success, end.cost) == ("A", code, success, takes * 1000)
    assert [record.msg_id for record in records if isinstance(record, ConsumeStart)] == ["A", "B"]
