"""Consumers for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Unpack, overload

from rmqcli.client.aio.methods import Client, documented, hostable, hosted, relayed
from rmqcli.client.bridge.traces import Traceable
from rmqcli.client.group.settings import LiteSettings, MessageSelector, PushSettings
from rmqcli.client.instance import InstanceOptions
from rmqcli.client.lite.consumer import DEFAULTS as LITE_DEFAULTS
from rmqcli.client.lite.consumer import LitePullConsumer as TrioLitePullConsumer
from rmqcli.client.pop.consumer import SimpleConsumer as TrioSimpleConsumer
from rmqcli.client.pull.consumer import PullConsumer as TrioPullConsumer
from rmqcli.client.pull.consumer import QueuesChanged
from rmqcli.client.push.consumer import DEFAULTS, Topics
from rmqcli.client.push.consumer import PushConsumer as TrioPushConsumer
from rmqcli.client.push.state import ConcurrentListener, OrderlyListener
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere
from rmqcli.codec.message_queue import MessageQueue


class PushConsumer(Client[TrioPushConsumer], Traceable):
    __doc__ = TrioPushConsumer.__doc__

    @overload
    def __init__(
        self,
        group: str,
        topics: Topics,
        listener: ConcurrentListener,
        *,
        pop: bool = ...,
        settings: PushSettings = ...,
        **options: Unpack[InstanceOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        group: str,
        topics: Topics,
        listener: OrderlyListener,
        *,
        orderly: bool,
        pop: bool = ...,
        settings: PushSettings = ...,
        **options: Unpack[InstanceOptions],
    ) -> None: ...

    def __init__(
        self,
        group: str,
        topics: Topics,
        listener: Callable[..., Any],
        *,
        orderly: bool = False,
        pop: bool = False,
        settings: PushSettings = DEFAULTS,
        **options: Unpack[InstanceOptions],
    ) -> None:
        super().__init__(
            TrioPushConsumer(
                group, topics, hostable(listener), orderly=orderly, pop=pop, settings=settings, **options
            )
        )
        self.group = self._trio.group

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are allocated to this consumer, sorted."""
        return self._trio.queues

    metrics = relayed(TrioPushConsumer.metrics)
    troubles = relayed(TrioPushConsumer.troubles)
    divided = hosted(TrioPushConsumer.divided)
    subscribe = hosted(TrioPushConsumer.subscribe)
    unsubscribe = hosted(TrioPushConsumer.unsubscribe)
    pause = relayed(TrioPushConsumer.pause)
    resume = relayed(TrioPushConsumer.resume)


class LitePullConsumer(Client[TrioLitePullConsumer]):
    __doc__ = TrioLitePullConsumer.__doc__

    def __init__(
        self, group: str, *, settings: LiteSettings = LITE_DEFAULTS, **options: Unpack[InstanceOptions]
    ) -> None:
        super().__init__(TrioLitePullConsumer(group, settings=settings, **options))
        self.group = self._trio.group

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are allocated or assigned to this consumer, sorted."""
        return self._trio.assignment

    @documented(TrioLitePullConsumer.subscribe)
    async def subscribe(
        self, topic: str, selector: str | MessageSelector = "*", *, on_change: QueuesChanged | None = None
    ) -> None:
        listener = None if on_change is None else hostable(on_change)
        await self._guest.call(partial(self._trio.subscribe, topic, selector, on_change=listener))

    metrics = relayed(TrioLitePullConsumer.metrics)
    unsubscribe = hosted(TrioLitePullConsumer.unsubscribe)
    assign = hosted(TrioLitePullConsumer.assign)
    poll = hosted(TrioLitePullConsumer.poll)
    seek = hosted(TrioLitePullConsumer.seek)
    seek_to_begin = hosted(TrioLitePullConsumer.seek_to_begin)
    seek_to_end = hosted(TrioLitePullConsumer.seek_to_end)
    pause = relayed(TrioLitePullConsumer.pause)
    resume = relayed(TrioLitePullConsumer.resume)
    commit = hosted(TrioLitePullConsumer.commit)
    committed = hosted(TrioLitePullConsumer.committed)
    offset_for_timestamp = hosted(TrioLitePullConsumer.offset_for_timestamp)
    message_queues = hosted(TrioLitePullConsumer.message_queues)


class PullConsumer(Client[TrioPullConsumer]):
    __doc__ = TrioPullConsumer.__doc__

    def __init__(self, group: str | None = None, **options: Unpack[InstanceOptions]) -> None:
        super().__init__(TrioPullConsumer(group, **options))
        self.group = self._trio.group

    @documented(TrioPullConsumer.register)
    async def register(self, topics: Mapping[str, QueuesChanged | None]) -> None:
        listeners = {topic: None if one is None else hostable(one) for topic, one in topics.items()}
        await self._guest.call(partial(self._trio.register, listeners))

    queues_in_balance = hosted(TrioPullConsumer.queues_in_balance)
    message_queues = hosted(TrioPullConsumer.message_queues)
    unread_queues = hosted(TrioPullConsumer.unread_queues)
    pull = hosted(TrioPullConsumer.pull)
    pull_block_if_not_found = hosted(TrioPullConsumer.pull_block_if_not_found)
    commit = hosted(TrioPullConsumer.commit)
    committed = hosted(TrioPullConsumer.committed)
    min_offset = hosted(TrioPullConsumer.min_offset)
    max_offset = hosted(TrioPullConsumer.max_offset)
    earliest_store_time = hosted(TrioPullConsumer.earliest_store_time)
    search_offset = hosted(TrioPullConsumer.search_offset)


class SimpleConsumer(Client[TrioSimpleConsumer]):
    __doc__ = TrioSimpleConsumer.__doc__

    def __init__(
        self,
        group: str,
        topics: Topics,
        *,
        await_duration: float = 30.0,
        consume_from: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        orderly: bool = False,
        **options: Unpack[InstanceOptions],
    ) -> None:
        super().__init__(
            TrioSimpleConsumer(
                group,
                topics,
                await_duration=await_duration,
                consume_from=consume_from,
                orderly=orderly,
                **options,
            )
        )
        self.group = self._trio.group

    subscribe = hosted(TrioSimpleConsumer.subscribe)
    unsubscribe = hosted(TrioSimpleConsumer.unsubscribe)
    receive = hosted(TrioSimpleConsumer.receive)
    ack = hosted(TrioSimpleConsumer.ack)
    change_invisible_duration = hosted(TrioSimpleConsumer.change_invisible_duration)
