"""Spans and metrics of OpenTelemetry: what sends, listeners and polls record, with the SDK in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import trio
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import (
    BrokerRefused,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeResult,
    InvalidRequest,
    LitePullConsumer,
    LiteSettings,
    OrderlyContext,
    OrderlyResult,
    Producer,
    PushConsumer,
    PushSettings,
    RequestTimeout,
    TransactionProducer,
    TransactionState,
    create_reply_message,
)
from rmqcli.client.otel import OpenTelemetryHook
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.message import Message, MessageExt
from tests.client.scripted import Network, refuse, silent
from tests.client.sending import SEND, TOPIC, Cluster, producing

FIRST = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
LITE_FIRST = LiteSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


class Recorded:
    """A hook and what it recorded."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.hook = OpenTelemetryHook(tracer_provider=self.provider, meter_provider=self.meters)
        self.tracer = self.provider.get_tracer("application")

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        (found,) = self.spans(name)
        return found

    def metrics(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """Metric → labels and value, which is the count of a histogram."""
        data: Any = self.reader.get_metrics_data()
        return {
            metric.name: [
                (dict(point.attributes), getattr(point, "value", getattr(point, "count", None)))
                for point in metric.data.data_points
            ]
            for scope in data.resource_metrics[0].scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    found = Recorded()
    yield found
    found.provider.shutdown()
    found.meters.shutdown()


@pytest.fixture
def cluster(network: Network) -> Cluster:
    return Cluster(network)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def ids(span: ReadableSpan | trace.SpanContext | None) -> tuple[int, int]:
    context = span.get_span_context() if isinstance(span, ReadableSpan) else span
    assert context is not None
    return context.trace_id, context.span_id


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [ids(link.context) for link in span.links]


async def until(condition: Any) -> None:
    while not condition():  # noqa: ASYNC110  nothing tells of it
        await trio.sleep(1)


async def test_a_message_from_send_to_listener(autojump_clock: Any, recorded: Recorded) -> None:
    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        with recorded.tracer.start_as_current_span("work"):
            assert baggage.get_baggage("user") == "7"
        return ConsumeResult.SUCCESS

    async with embedded_in_memory() as cluster:
        options = {**cluster.client(), "hook": recorded.hook}
        async with Producer("PG", **options) as producer:
            message = Message.of("T", b"x", tags="new", keys=["k1", "k2"])
            token = attach(baggage.set_baggage("user", "7"))
            with recorded.tracer.start_as_current_span("request"):
                result = await producer.send(message)
            detach(token)
            assert "traceparent" not in message.properties
        async with PushConsumer("G", {"T": "*"}, listen, settings=FIRST, **options) as consumer:
            await until(lambda: recorded.spans("process T"))
            client_id = consumer.instance.client_id
    request, send, process, work = map(recorded.span, ("request", "send T", "process T", "work"))
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert [ids(span.parent) for span in (send, process, work)] == [ids(s) for s in (request, send, process)]
    assert linked(send) == [] and linked(process) == [ids(send)]
    about = {
        "messaging.system": "rocketmq",
        "messaging.destination.name": "T",
        "messaging.rocketmq.namespace": "",
        "messaging.message.id": result.msg_id,
        "messaging.rocketmq.message.tag": "new",
        "messaging.rocketmq.message.keys": ("k1", "k2"),
        "messaging.destination.partition.id": f"broker-a:{result.message_queue.queue_id}",
        "server.address": "127.0.0.1",
        "server.port": 10911,
    }
    sent = attributes(send)
    del sent["messaging.client.id"]
    assert sent == about | {
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.rocketmq.message.type": "normal",
    }
    assert attributes(process) == about | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "G",
        "messaging.rocketmq.consumption_model": "clustering",
        "messaging.client.id": client_id,
    }
    assert {name: [value for _, value in points] for name, points in recorded.metrics().items()} == {
        "messaging.client.sent.messages": [1],
        "messaging.client.operation.duration": [1],
        "messaging.client.consumed.messages": [1],
        "messaging.process.duration": [1],
    }


async def test_one_span_for_all_attempts(autojump_clock: Any, cluster: Cluster, recorded: Recorded) -> None:
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = refuse(ResponseCode.SYSTEM_ERROR)
    async with producing(cluster.network, hook=recorded.hook) as producer:
        with pytest.raises(BrokerRefused):
            await producer.send(Message.of(TOPIC, b"x"))
    span = recorded.span("send T")
    assert attributes(span)["rmq.send.attempts"] == len(cluster.sends()) == 3
    assert attributes(span)["error.type"] == "rmqcli.client.errors.BrokerRefused"
    assert span.status.status_code is StatusCode.ERROR and span.events[0].name == "exception"
    ((labels, value),) = recorded.metrics()["messaging.client.sent.messages"]
    assert (labels["error.type"], value) == ("rmqcli.client.errors.BrokerRefused", 1)


async def test_a_retry_that_succeeds(autojump_clock: Any, cluster: Cluster, recorded: Recorded) -> None:
    cluster.a.replies[SEND] = refuse(ResponseCode.SYSTEM_ERROR)
    async with producing(cluster.network, hook=recorded.hook) as producer:
        for _ in range(4):  # the queues take turns, so that some begin at the broker that refuses
            await producer.send(Message.of(TOPIC, b"x"))
    spans = recorded.spans("send T")
    assert len(spans) == 4
    assert {attributes(span).get("rmq.send.attempts") for span in spans} == {None, 2}
    assert not any("error.type" in attributes(span) for span in spans)
    assert {attributes(span)["server.address"] for span in spans} == {"b"}


async def test_what_is_refused_before_it_is_sent_is_not_counted(
    autojump_clock: Any, cluster: Cluster, recorded: Recorded
) -> None:
    async with producing(cluster.network, hook=recorded.hook) as producer:
        with pytest.raises(InvalidRequest):
            await producer.send(Message.of(TOPIC, b""))
        with pytest.raises(InvalidRequest):
            await producer.send_batch([])
    assert attributes(recorded.span("send T"))["error.type"] == "rmqcli.client.errors.InvalidRequest"
    assert "messaging.client.sent.messages" not in recorded.metrics()


async def test_a_send_without_a_reply_and_one_that_is_cancelled(
    autojump_clock: Any, cluster: Cluster, recorded: Recorded
) -> None:
    async with producing(cluster.network, hook=recorded.hook) as producer:
        await producer.send_oneway(Message.of(TOPIC, b"x"))
        cluster.a.replies[SEND] = cluster.b.replies[SEND] = silent
        with pytest.raises(RequestTimeout):
            await producer.send(Message.of(TOPIC, b"x"), timeout=1)
        with trio.move_on_after(1):
            await producer.send(Message.of(TOPIC, b"x"))
    found = [attributes(span).get("error.type") for span in recorded.spans("send T")]
    assert found == [None, "rmqcli.client.errors.RequestTimeout", "trio.Cancelled"]


async def test_a_batch_is_one_span_and_keeps_contexts_of_the_caller(
    autojump_clock: Any, recorded: Recorded
) -> None:
    async with embedded_in_memory() as cluster:
        options = {**cluster.client(), "hook": recorded.hook}
        own = f"00-{1:032x}-{2:016x}-01"
        async with Producer("PG", **options) as producer:
            messages = [Message.of("T", b"1"), Message.of("T", b"2", properties={"traceparent": own})]
            await producer.send_batch(messages)
        async with LitePullConsumer("G", settings=LITE_FIRST, **options) as consumer:
            await consumer.subscribe("T")
            polled = await consumer.poll(30)
    send, poll = recorded.span("send T"), recorded.span("poll T")
    assert (attributes(send)["messaging.batch.message_count"], len(polled)) == (2, 2)
    assert linked(send) == [(1, 2)]
    assert (poll.kind, linked(poll)) == (SpanKind.CLIENT, [ids(send), (1, 2)])
    assert [dict(link.attributes or {}) for link in poll.links] == [
        {"messaging.message.id": message.msg_id} for message in polled
    ]
    assert attributes(poll)["messaging.operation.type"] == "receive"
    values = recorded.metrics()
    assert [value for _, value in values["messaging.client.sent.messages"]] == [2]
    assert [value for _, value in values["messaging.client.consumed.messages"]] == [2]


@pytest.mark.parametrize("plain", [True, False])
async def test_failures_of_a_listener(autojump_clock: Any, recorded: Recorded, plain: bool) -> None:
    outcomes: list[Any] = [ValueError("no"), ConsumeResult.RECONSUME_LATER, None, ConsumeResult.SUCCESS]
    seen: list[int] = []

    def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult | None:
        recorded.tracer.start_span("work").end()
        seen.append(messages[0].reconsume_times)
        outcome: Any = outcomes[len(seen) - 1]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    async def listen_on_trio(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult | None:
        return listen(messages, context)

    async with embedded_in_memory() as cluster:
        options = {**cluster.client(), "hook": recorded.hook}
        async with Producer("PG", **options) as producer:
            await producer.send(Message.of("T", b"x"))
        chosen: Any = listen if plain else listen_on_trio
        async with PushConsumer("G", {"T": "*"}, chosen, settings=FIRST, **options):
            await until(lambda: len(recorded.spans("process T")) == 4)
    spans = recorded.spans("process T")
    assert [attributes(span).get("error.type") for span in spans] == [
        *("ValueError", "RECONSUME_LATER", "RECONSUME_LATER", None)
    ]
    assert [span.status.status_code is StatusCode.ERROR for span in spans] == [True, True, True, False]
    assert [attributes(span).get("rmq.message.reconsume_times") for span in spans] == [None, 1, 2, 3]
    sent = recorded.span("send T")
    assert [ids(span.parent) for span in spans] == [ids(sent)] * 4
    assert [ids(span.parent) for span in recorded.spans("work")] == [ids(span) for span in spans]


async def test_a_batch_of_which_a_part_is_accepted(autojump_clock: Any, recorded: Recorded) -> None:
    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        context.ack_index = 0
        return ConsumeResult.SUCCESS

    settings = PushSettings(batch_size=2, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with embedded_in_memory() as cluster:
        options = {**cluster.client(), "hook": recorded.hook}
        async with Producer("PG", **options) as producer:
            await producer.send_batch([Message.of("T", b"1"), Message.of("T", b"2")])
        async with PushConsumer("G", {"T": "*"}, listen, settings=settings, **options):
            await until(lambda: len(recorded.spans("process T")) == 2)
    both, again = recorded.spans("process T")
    send = recorded.span("send T")
    assert both.parent is None and linked(both) == [ids(send)] * 2
    assert attributes(both)["error.type"] == "RECONSUME_LATER"
    assert attributes(both)["messaging.batch.message_count"] == 2
    assert ids(again.parent) == ids(send) and "error.type" not in attributes(again)


async def test_an_orderly_listener(autojump_clock: Any, recorded: Recorded) -> None:
    outcomes = [OrderlyResult.SUSPEND, OrderlyResult.SUCCESS]

    async def listen(messages: list[MessageExt], context: OrderlyContext) -> OrderlyResult:
        return outcomes.pop(0)

    async with embedded_in_memory() as cluster:
        options = {**cluster.client(), "hook": recorded.hook}
        async with Producer("PG", **options) as producer:
            await producer.send(Message.of("T", b"x"))
        async with PushConsumer("G", {"T": "*"}, listen, orderly=True, settings=FIRST, **options):
            await until(lambda: len(recorded.spans("process T")) == 2)
    spans = recorded.spans("process T")
    assert [attributes(span).get("error.type") for span in spans] == ["SUSPEND", None]


async def test_transactions_and_delays_in_a_namespace(autojump_clock: Any, recorded: Recorded) -> None:
    async def local(half: Message) -> TransactionState:
        return TransactionState.COMMIT_MESSAGE

    async def check(half: MessageExt) -> TransactionState:
        return TransactionState.UNKNOW

    seen: list[Sequence[MessageExt]] = []

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        seen.append(messages)
        return ConsumeResult.SUCCESS

    async with embedded_in_memory() as cluster:
        options = {**cluster.client(), "hook": recorded.hook, "namespace": "MQ_INST_1"}
        async with TransactionProducer("PG", check, **options) as producer:
            await producer.send_in_transaction(Message.of("T", b"half"), local)
            await producer.send(Message.of("T", b"later", delay_level=1))
        async with PushConsumer("G", {"T": "*"}, listen, settings=FIRST, **options):
            await until(lambda: len(seen) == 2)
    sent = [attributes(span) for span in recorded.spans("send T")]
    assert [one["messaging.rocketmq.message.type"] for one in sent] == ["transaction", "delay"]
    assert sent[1]["messaging.rocketmq.message.delay_time_level"] == 1
    spans = recorded.spans("send T") + recorded.spans("process T")
    assert {attributes(span)["messaging.rocketmq.namespace"] for span in spans} == {"MQ_INST_1"}
    assert {attributes(span)["messaging.consumer.group.name"] for span in spans[2:]} == {"G"}
    assert {ids(span.parent) for span in spans[2:]} == {ids(span) for span in spans[:2]}


async def test_request_and_reply(autojump_clock: Any, recorded: Recorded) -> None:
    async with embedded_in_memory() as cluster:
        options = {**cluster.client(), "hook": recorded.hook}
        async with Producer("PG", trace=True, **options) as producer:

            async def answer(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
                await producer.send(create_reply_message(messages[0], b"answer"))
                return ConsumeResult.SUCCESS

            async with PushConsumer("G", {"T": "*"}, answer, settings=FIRST, **options):
                await producer.request(Message.of("T", b"question"), timeout=60)
    names = {span.name for span in recorded.exporter.get_finished_spans()}
    assert names == {"send T", "process T", "send DefaultCluster_REPLY_TOPIC"}  # no sends of traces
    send, process, reply = (
        recorded.span(name) for name in ("send T", "process T", "send DefaultCluster_REPLY_TOPIC")
    )
    assert ids(reply.parent) == ids(process)
    conversation = {attributes(span)["messaging.message.conversation_id"] for span in (send, process, reply)}
    assert len(conversation) == 1


def test_clients_do_not_import_opentelemetry() -> None:
    program = (
        "import sys; from rmqcli.client import LitePullConsumer, Producer, PushConsumer;"
        "print(*(name for name in sys.modules if name.startswith('opentelemetry')))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
