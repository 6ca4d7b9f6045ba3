"""Requests that every kind of consumer serves: members changed (40), offsets (221), running info (307)."""

from __future__ import annotations

from collections.abc import Callable

from rmqcli.client.instance import ClientInstance
from rmqcli.client.processor import BrokerRequest
from rmqcli.codec.bodies.offsets import GetConsumerStatusBody
from rmqcli.codec.bodies.running import ConsumerRunningInfo
from rmqcli.codec.headers.clients import (
    GetConsumerRunningInfoRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
)
from rmqcli.codec.headers.offsets import GetConsumerStatusRequestHeader
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.clients import GET_CONSUMER_RUNNING_INFO, NOTIFY_CONSUMER_IDS_CHANGED
from rmqcli.codec.operations.offsets import GET_CONSUMER_STATUS_FROM_CLIENT
from rmqcli.codec.remoting.command import RemotingCommand


class ConsumerProcessor:
    """The handlers of one consumer.

    `rebalance_soon` is called when members changed; `offsets` returns the offsets of a topic, `running_info`
    the state of the consumer, with or without thread stacks.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        rebalance_soon: Callable[[], None],
        offsets: Callable[[str], dict[MessageQueue, int]],
        running_info: Callable[[bool], ConsumerRunningInfo],
    ) -> None:
        self._requests = instance.requests
        self._group = group
        self._rebalance_soon = rebalance_soon
        self._offsets = offsets
        self._running_info = running_info
        self.is_open = False

    def open(self) -> None:
        """Register the handlers, once.

        Raises InvalidRequest if the instance has another consumer of the group.
        """
        if self.is_open:
            return
        self._requests.check_free(self._group)
        self._requests.register(NOTIFY_CONSUMER_IDS_CHANGED, self._members_changed, self._group)
        self._requests.register(GET_CONSUMER_STATUS_FROM_CLIENT, self._status, self._group)
        self._requests.register(GET_CONSUMER_RUNNING_INFO, self._info, self._group)
        self.is_open = True

    def close(self) -> None:
        if self.is_open:
            self._requests.unregister_group(self._group)
            self.is_open = False

    def _members_changed(
        self, request: BrokerRequest[NotifyConsumerIdsChangedRequestHeader, None, None, None]
    ) -> None:
        self._rebalance_soon()

    def _status(
        self, request: BrokerRequest[GetConsumerStatusRequestHeader, None, None, GetConsumerStatusBody]
    ) -> RemotingCommand:
        offsets = self._offsets(request.header.topic)
        return request.reply(GetConsumerStatusBody(message_queue_table=offsets))

    def _info(
        self, request: BrokerRequest[GetConsumerRunningInfoRequestHeader, None, None, ConsumerRunningInfo]
    ) -> RemotingCommand:
        return request.reply(self._running_info(request.header.jstack_enable))
