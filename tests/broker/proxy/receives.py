"""Receives and acknowledgements of a gRPC client."""

from __future__ import annotations

from typing import Any

from rmqcli.codec.proxy import messages
from tests.broker.proxy.calls import Stub, topic

METHOD = next(one for one in messages.METHODS if one.name == "ReceiveMessage")


def wanted(name: str = "orders", group: str = "billing", **more: Any) -> dict[str, Any]:
    queue = messages.MessageQueue(topic=topic(name), id=-1)
    fields = {"group": topic(group), "message_queue": queue, "batch_size": 32}
    if not more.get("auto_renew"):
        fields["invisible_duration"] = messages.Duration(seconds=30)
    return fields | more


async def received(stub: Stub, **more: Any) -> list[Any]:
    """The messages of one receive."""
    replies = await stub.stream("ReceiveMessage", **wanted(**more))
    return [one.message for one in replies if one.HasField("message")]


def handle_of(one: Any) -> str:
    return str(one.system_properties.receipt_handle)


async def ack(stub: Stub, *handles: str) -> Any:
    entries = [messages.AckMessageEntry(message_id="x", receipt_handle=handle) for handle in handles]
    return await stub("AckMessage", group=topic("billing"), topic=topic("orders"), entries=entries)


async def change(stub: Stub, handle: str, seconds: int) -> Any:
    return await stub(
        "ChangeInvisibleDuration",
        group=topic("billing"),
        topic=topic("orders"),
        receipt_handle=handle,
        invisible_duration=messages.Duration(seconds=seconds),
    )
