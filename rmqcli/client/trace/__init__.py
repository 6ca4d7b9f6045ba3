"""Message trace: records of sends and consumption, written to a topic in Java's format."""

from __future__ import annotations

from rmqcli.client.trace.consuming import ConsumeMark, ConsumeTracer, consume_tracer, traced
from rmqcli.client.trace.dispatcher import (
    TRACE_TOPIC,
    OpenProducer,
    TraceDispatcher,
    TraceProducer,
    pack,
    trace_topic,
)
from rmqcli.client.trace.producing import message_type, published
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

__all__ = [
    "TRACE_TOPIC",
    "ConsumeEnd",
    "ConsumeMark",
    "ConsumeStart",
    "ConsumeTracer",
    "ContextCode",
    "MessageType",
    "OpenProducer",
    "Published",
    "TraceDispatcher",
    "TraceProducer",
    "TraceRecord",
    "TransactionEnd",
    "consume_tracer",
    "decode_trace",
    "encode_record",
    "message_type",
    "pack",
    "published",
    "trace_topic",
    "traced",
]
