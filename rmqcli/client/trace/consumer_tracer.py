"""The tracer of a consumer, which sends with a producer of the same instance."""

from __future__ import annotations

from functools import partial

from rmqcli.client.instance import ClientInstance
from rmqcli.client.namespaces import without_namespace
from rmqcli.client.produce.producer import Producer
from rmqcli.client.trace import ConsumeTracer


def consume_tracer(instance: ClientInstance, group: str, trace: bool | str) -> ConsumeTracer | None:
    """The tracer, or None when `trace` is False.

    True: RMQ_SYS_TRACE_TOPIC, a text: that topic, by its whole name.
    """
    if not trace:
        return None
    producer = partial(Producer, instance=instance, namespace=instance.address_namespace)
    return ConsumeTracer(instance, without_namespace(group), producer, trace)
