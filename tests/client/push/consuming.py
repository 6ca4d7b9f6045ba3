"""Consumers of the in-memory cluster, and listeners that record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from rmqcli.client import ClientInstance, ConsumeContext, ConsumeResult, PushConsumer, PushSettings
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere
from rmqcli.codec.message import MessageExt
from tests.client.watched_cluster import NAMESRV, WatchedCluster, now_ms

DONE, LATER = ConsumeResult.SUCCESS, ConsumeResult.RECONSUME_LATER
TOPIC, GROUP = "TopicTest", "GroupTest"


def consumer(
    cluster: WatchedCluster,
    listener: Any,
    name: str = "c1",
    *,
    topics: Any = None,
    orderly: bool = False,
    pop: bool = False,
    instance: ClientInstance | None = None,
    clock: Callable[[], int] = now_ms,
    **settings: Any,
) -> PushConsumer:
    """A consumer of the cluster that reads from the first message on; `name` is its client id."""
    settings.setdefault("consume_from", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    options: Any = (
        {} if instance else {"namesrv": NAMESRV, "open_stream": cluster.open_stream, "now_ms": clock}
    )
    made = PushConsumer(
        GROUP,
        topics or {TOPIC: "*"},
        listener,
        orderly=orderly,
        pop=pop,
        settings=PushSettings(**settings),
        instance=instance,
        **options,
    )
    if instance is None:
        made.instance.client_id = name
    return made


class Taken:
    """A listener that records messages and returns the results of its script (default: SUCCESS)."""

    def __init__(self, *script: ConsumeResult | Exception | None) -> None:
        self.script = list(script)
        self.messages: list[tuple[float, MessageExt]] = []
        self.context: Any = None

    async def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult | None:
        self.messages += [(trio.current_time(), message) for message in messages]
        if self.context is not None:
            self.context(context)
        answer = self.script.pop(0) if self.script else DONE
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for _, message in self.messages]
