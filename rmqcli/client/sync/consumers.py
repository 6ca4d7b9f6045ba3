"""Consumers for threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack, overload

from rmqcli.client.bridge.traces import Traceable
from rmqcli.client.group.settings import LiteSettings, PushSettings
from rmqcli.client.instance import InstanceOptions
from rmqcli.client.lite.consumer import DEFAULTS as LITE_DEFAULTS
from rmqcli.client.lite.consumer import LitePullConsumer as TrioLitePullConsumer
from rmqcli.client.pop.consumer import SimpleConsumer as TrioSimpleConsumer
from rmqcli.client.pull.consumer import PullConsumer as TrioPullConsumer
from rmqcli.client.push.consumer import DEFAULTS, Topics
from rmqcli.client.push.consumer import PushConsumer as TrioPushConsumer
from rmqcli.client.push.state import ConsumeContext, ConsumeResult, OrderlyContext, OrderlyResult
from rmqcli.client.sync.methods import Client, at_once, blocking, plain, relayed
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue

ConcurrentListener = Callable[[list[MessageExt], ConsumeContext], ConsumeResult | None]
OrderlyListener = Callable[[list[MessageExt], OrderlyContext], OrderlyResult | None]


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
        plain(listener, "a listener")
        super().__init__(
            TrioPushConsumer(group, topics, listener, orderly=orderly, pop=pop, settings=settings, **options)
        )
        self.group = self._trio.group

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are allocated to this consumer, sorted."""
        return self._portal.value(lambda: self._trio.queues)

    metrics = at_once(TrioPushConsumer.metrics)
    troubles = relayed(TrioPushConsumer.troubles)
    divided = blocking(TrioPushConsumer.divided)
    subscribe = blocking(TrioPushConsumer.subscribe)
    unsubscribe = blocking(TrioPushConsumer.unsubscribe)
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
        return self._portal.value(lambda: self._trio.assignment)

    metrics = at_once(TrioLitePullConsumer.metrics)
    subscribe = blocking(TrioLitePullConsumer.subscribe)
    unsubscribe = blocking(TrioLitePullConsumer.unsubscribe)
    assign = blocking(TrioLitePullConsumer.assign)
    poll = blocking(TrioLitePullConsumer.poll)
    seek = blocking(TrioLitePullConsumer.seek)
    seek_to_begin = blocking(TrioLitePullConsumer.seek_to_begin)
    seek_to_end = blocking(TrioLitePullConsumer.seek_to_end)
    pause = relayed(TrioLitePullConsumer.pause)
    resume = relayed(TrioLitePullConsumer.resume)
    commit = blocking(TrioLitePullConsumer.commit)
    committed = blocking(TrioLitePullConsumer.committed)
    offset_for_timestamp = blocking(TrioLitePullConsumer.offset_for_timestamp)
    message_queues = blocking(TrioLitePullConsumer.message_queues)


class PullConsumer(Client[TrioPullConsumer]):
    __doc__ = TrioPullConsumer.__doc__

    def __init__(self, group: str | None = None, **options: Unpack[InstanceOptions]) -> None:
        super().__init__(TrioPullConsumer(group, **options))
        self.group = self._trio.group

    register = blocking(TrioPullConsumer.register)
    queues_in_balance = blocking(TrioPullConsumer.queues_in_balance)
    message_queues = blocking(TrioPullConsumer.message_queues)
    unread_queues = blocking(TrioPullConsumer.unread_queues)
    pull = blocking(TrioPullConsumer.pull)
    pull_block_if_not_found = blocking(TrioPullConsumer.pull_block_if_not_found)
    commit = blocking(TrioPullConsumer.commit)
    committed = blocking(TrioPullConsumer.committed)
    min_offset = blocking(TrioPullConsumer.min_offset)
    max_offset = blocking(TrioPullConsumer.max_offset)
    earliest_store_time = blocking(TrioPullConsumer.earliest_store_time)
    search_offset = blocking(TrioPullConsumer.search_offset)


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

    subscribe = blocking(TrioSimpleConsumer.subscribe)
    unsubscribe = blocking(TrioSimpleConsumer.unsubscribe)
    receive = blocking(TrioSimpleConsumer.receive)
    ack = blocking(TrioSimpleConsumer.ack)
    change_invisible_duration = blocking(TrioSimpleConsumer.change_invisible_duration)
