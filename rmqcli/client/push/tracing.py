"""Trace records of calls of a listener (Java `ConsumeMessageTraceHookImpl`).

Messages with TRACE_ON=false from their broker are not traced.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from rmqcli.client.identity import without_namespace
from rmqcli.client.instance import ClientInstance
from rmqcli.client.produce.producer import Producer
from rmqcli.client.push.state import Call
from rmqcli.client.trace.dispatcher import TRACE_TOPIC, TraceDispatcher, trace_topic
from rmqcli.client.trace.records import ConsumeEnd, ConsumeStart, ContextCode
from rmqcli.codec.message import MessageExt, PropertyName


class ConsumeMark(NamedTuple):
    """One listener call, between `before` and `after`."""

    request_id: str
    messages: Sequence[MessageExt]
    began_ms: int


class ConsumeTracer(TraceDispatcher):
    """The tracer of one consumer group."""

    def __init__(
        self, instance: ClientInstance, group: str, topic: str = TRACE_TOPIC, *, waits: bool = False
    ) -> None:
        super().__init__(instance, Producer, group, "CONSUME", topic, waits=waits)
        self._consumer_group = group

    def before(self, messages: Sequence[MessageExt]) -> ConsumeMark:
        """Record that a listener is called with these messages."""
        traced = [m for m in messages if m.properties.get(PropertyName.TRACE_ON) != "false"]
        mark = ConsumeMark(uuid4().hex.upper(), traced, self._instance.now_ms())
        self.put(
            ConsumeStart(
                mark.began_ms,
                message.properties.get(PropertyName.MSG_REGION),
                self._consumer_group,
                mark.request_id,
                message.msg_id,
                message.reconsume_times,
                message.properties.get(PropertyName.KEYS),
            )
            for message in traced
        )
        return mark

    def age(self, mark: ConsumeMark) -> float:
        return (self._instance.now_ms() - mark.began_ms) / 1000

    def after(self, mark: ConsumeMark, success: bool, code: ContextCode | None = None) -> None:
        """Record the end of the call. Its time is divided among the messages, as in Java."""
        if code is None:
            code = ContextCode.SUCCESS if success else ContextCode.FAILED
        now = self._instance.now_ms()
        cost = (now - mark.began_ms) // max(1, len(mark.messages))
        self.put(
            ConsumeEnd(
                mark.request_id,
                message.msg_id,
                cost,
                success,
                message.properties.get(PropertyName.KEYS),
                code,
                now,
                self._consumer_group,
            )
            for message in mark.messages
        )


def consume_tracer(
    instance: ClientInstance, group: str, trace: bool | str, *, waits: bool
) -> ConsumeTracer | None:
    """Return the tracer of a consumer for its option `trace`, or None if it is False."""
    topic = trace_topic(trace)
    return None if topic is None else ConsumeTracer(instance, without_namespace(group), topic, waits=waits)


def traced(call: Call, tracer: ConsumeTracer, good: Container[object], timeout: float) -> Call:
    """Return a listener whose calls are traced.

    `good` are the results that mean success. A call of `timeout` seconds or more is recorded as timed out. A
    cancelled call has no end record.
    """

    async def listener(messages: list[MessageExt], context: Any) -> Any:
        await tracer.room()
        mark = tracer.before(messages)
        try:
            result = await call(messages, context)
        except Exception:  # raised by the application; the service that calls the listener handles it
            tracer.after(mark, False, ContextCode.EXCEPTION)
            raise
        tracer.after(mark, result in good, _code(result, good, tracer.age(mark) >= timeout))
        return result

    return listener


def _code(result: object, good: Container[object], late: bool) -> ContextCode:
    if result is None:
        return ContextCode.RETURN_NULL
    if late:
        return ContextCode.TIME_OUT
    return ContextCode.SUCCESS if result in good else ContextCode.FAILED
