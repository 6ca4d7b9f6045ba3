"""Spans and metrics of producers and consumers by OpenTelemetry (extra `otel`).

Names and structure are those of version 1.44 of the conventions for messaging:
https://opentelemetry.io/docs/specs/semconv/messaging/ (messaging-spans, messaging-metrics and rocketmq).

| operation | span | context |
|---|---|---|
| a send with all its attempts | `send TOPIC`, PRODUCER | is injected into the properties of the messages |
| a call of a listener | `process TOPIC`, CONSUMER | links to those of the messages; one alone is the parent |
| a `poll` that returns messages | `poll TOPIC`, CLIENT | links to those of the messages |

A message that already carries a context keeps it, and its send is linked to it. The conventions have no names
for attempts: `rmq.send.attempts` is set above 1, `rmq.message.reconsume_times` above 0.

`error.type` is the class of the exception, or the result of the listener: RECONSUME_LATER, SUSPEND, ROLLBACK.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import Histogram, MeterProvider
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, TracerProvider
from opentelemetry.util.types import AttributeValue

from rmqcli import __version__
from rmqcli.client.hooks import Delivery, Sending
from rmqcli.codec.message import Message, MessageExt, PropertyName

__all__ = ["OpenTelemetryHook"]

SCOPE, SCHEMA = "rmqcli.client", "https://opentelemetry.io/schemas/1.44.0"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
ERROR_TYPE = "error.type"
MESSAGE_ID = "messaging.message.id"

Attributes = dict[str, AttributeValue]


class OpenTelemetryHook:
    """The value of the option `hook` of clients that OpenTelemetry observes. One may serve many clients.

    The default providers are the global ones. The context of a message is written and read by the global
    propagator, as W3C Trace Context unless it is replaced.
    """

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        self._tracer = trace.get_tracer(SCOPE, __version__, tracer_provider, SCHEMA)
        meter = metrics.get_meter(SCOPE, __version__, meter_provider, SCHEMA)
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages that a producer tried to send."
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages delivered to the application."
        )
        self._operation = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of sends and polls.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self._process = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of calls of listeners.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )

    @contextmanager
    def send(self, sending: Sending) -> Iterator[None]:
        """Make a span current, inject its context into the messages, and count them."""
        messages = sending.messages
        labels = _labels("send", "send", messages[0].topic)
        attributes = labels | _of_client(sending) | _of_messages(messages, is_batch=sending.is_batch)
        if not sending.is_batch:
            attributes |= _of_kind(messages[0])
        span = self._tracer.start_span(
            f"send {messages[0].topic}", None, SpanKind.PRODUCER, attributes, _links(messages)
        )
        context = trace.set_span_in_context(span)
        carrier: dict[str, str] = {}
        propagate.inject(carrier, context)
        carrier = {name: value for name, value in carrier.items() if value}  # the client refuses empty ones
        sending.messages = [
            message if _creation_context(message).is_valid else message.with_properties(carrier)
            for message in messages
        ]
        try:
            with _measured(span, context, labels, self._operation):
                try:
                    yield
                finally:
                    labels |= _of_server(sending.server)
                    span.set_attributes(_of_result(sending))
        finally:
            if sending.brokers:  # otherwise nothing was sent
                self._sent.add(len(messages), labels)

    @contextmanager
    def process(self, delivery: Delivery) -> Iterator[None]:
        """Make a span current and count the messages. A span that the listener starts is its child."""
        messages, topic = delivery.messages, _topic(delivery)
        labels = _labels("process", "process", topic) | _of_group(delivery)
        single = len(messages) == 1
        context = propagate.extract(messages[0].properties, Context()) if single else Context()
        attributes = labels | _of_client(delivery) | _of_delivery(delivery, is_batch=not single)
        span = self._tracer.start_span(
            f"process {topic}", context, SpanKind.CONSUMER, attributes, _links(messages)
        )
        try:
            with _measured(span, trace.set_span_in_context(span, context), labels, self._process):
                yield
                if delivery.failed:
                    name = getattr(delivery.result, "name", "SUCCESS")
                    labels[ERROR_TYPE] = "RECONSUME_LATER" if name == "SUCCESS" else name
                    span.set_status(StatusCode.ERROR)
        finally:
            self._consumed.add(len(messages), labels)

    def receive(self, delivery: Delivery, seconds: float) -> None:
        """Record a span that ends now, and count the messages."""
        topic, end = _topic(delivery), time.time_ns()
        labels = _labels("poll", "receive", topic) | _of_group(delivery)
        attributes = labels | _of_client(delivery) | _of_delivery(delivery, is_batch=True)
        begin = end - round(seconds * 1e9)
        span = self._tracer.start_span(
            f"poll {topic}", None, SpanKind.CLIENT, attributes, _links(delivery.messages), begin
        )
        span.end(end)
        self._operation.record(seconds, labels)
        self._consumed.add(len(delivery.messages), labels)


@contextmanager
def _measured(span: Span, context: Context, labels: Attributes, duration: Histogram) -> Iterator[None]:
    """Make the context current, record an exception, end the span, and record its duration."""
    token, began = attach(context), time.perf_counter()
    try:
        yield
    except BaseException as error:
        kind = type(error)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        labels[ERROR_TYPE] = module + kind.__qualname__
        span.record_exception(error)
        span.set_status(StatusCode.ERROR, str(error))
        raise
    finally:
        detach(token)
        span.set_attributes(labels)
        span.end()
        duration.record(time.perf_counter() - began, labels)


def _creation_context(message: Message | MessageExt) -> trace.SpanContext:
    return trace.get_current_span(propagate.extract(message.properties, Context())).get_span_context()


def _links(messages: Sequence[Message | MessageExt]) -> list[Link]:
    contexts = [(_creation_context(message), _id(message)) for message in messages]
    return [Link(context, {MESSAGE_ID: msg_id}) for context, msg_id in contexts if context.is_valid]


def _id(message: Message | MessageExt) -> str:
    return message.msg_id if isinstance(message, MessageExt) else message.uniq_key or ""


def _topic(delivery: Delivery) -> str:
    """Return the topic of the messages, or that of their queue, a retry topic, if they differ."""
    topics = {message.topic for message in delivery.messages}
    return topics.pop() if len(topics) == 1 else delivery.queue.topic


# Attributes. Those of metrics (labels) have few values.


def _labels(name: str, kind: str, topic: str) -> Attributes:
    return {
        "messaging.system": "rocketmq",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": topic,
    }


def _of_group(delivery: Delivery) -> Attributes:
    server = _of_server(delivery.messages[0].store_host)
    return {"messaging.consumer.group.name": delivery.group, **server}


def _of_server(address: str) -> Attributes:
    host, _, port = address.rpartition(":")
    return {"server.address": host.strip("[]"), "server.port": int(port)} if host else {}


def _of_client(observed: Sending | Delivery) -> Attributes:
    return {
        "messaging.client.id": observed.client_id,
        "messaging.rocketmq.namespace": observed.namespace,
    }


def _of_messages(messages: Sequence[Message | MessageExt], *, is_batch: bool) -> Attributes:
    if is_batch:
        return {"messaging.batch.message_count": len(messages)}
    (message,) = messages
    found: Mapping[str, AttributeValue | None] = {
        MESSAGE_ID: _id(message),
        "messaging.message.conversation_id": message.properties.get(PropertyName.CORRELATION_ID),
        "messaging.rocketmq.message.tag": message.tags,
        "messaging.rocketmq.message.keys": message.keys,
    }
    return {name: value for name, value in found.items() if value}


def _of_kind(message: Message) -> Attributes:
    name, level = "messaging.rocketmq.message.type", message.delay_level
    if message.properties.get(PropertyName.TRAN_MSG) == "true":
        return {name: "transaction"}
    if level:
        return {name: "delay", "messaging.rocketmq.message.delay_time_level": level}
    return {name: "normal"}


def _of_result(sending: Sending) -> Attributes:
    attempts = len(sending.brokers)
    found: Attributes = {"rmq.send.attempts": attempts} if attempts > 1 else {}
    if sending.result is not None:
        queue = sending.result.message_queue
        found["messaging.destination.partition.id"] = f"{queue.broker_name}:{queue.queue_id}"
    return found


def _of_delivery(delivery: Delivery, *, is_batch: bool) -> Attributes:
    queue, times = delivery.queue, delivery.messages[0].reconsume_times
    found = _of_messages(delivery.messages, is_batch=is_batch)
    found["messaging.destination.partition.id"] = f"{queue.broker_name}:{queue.queue_id}"
    found["messaging.rocketmq.consumption_model"] = (
        "broadcasting" if delivery.is_broadcasting else "clustering"
    )
    if times and not is_batch:
        found["rmq.message.reconsume_times"] = times
    return found
