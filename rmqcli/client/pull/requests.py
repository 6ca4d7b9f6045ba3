"""What brokers ask of a pull consumer that joined its group: the offsets it committed (221) and its running info (307)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from codec.bodies.base import encode_body
from codec.bodies.heartbeat import ConsumeType, SubscriptionData
from codec.bodies.offsets import GetConsumerStatusBody
from codec.bodies.running import ConsumerRunningInfo
from codec.codes import RequestCode, ResponseCode
from codec.headers.base import from_ext
from codec.headers.offsets import GetConsumerStatusRequestHeader
from codec.message_queue import MessageQueue
from codec.remoting.frame import RemotingCommand
from rmqcli.client.group.broker_requests import RequestHandler
from rmqcli.client.group.running_properties import running_properties
from rmqcli.client.instance import ClientInstance
from rmqcli.client.wire.link import Link

__all__ = ["PullRequests"]


class PullRequests:
    """The answers of one consumer. `committed`: what it stored for its group since it began."""

    def __init__(
        self, instance: ClientInstance, group: str, subscriptions: Callable[[], Collection[SubscriptionData]]
    ) -> None:
        self._instance = instance
        self._group = group
        self._subscriptions = subscriptions
        self._started_ms = instance.now_ms()
        self._is_open = False
        self.committed: dict[MessageQueue, int] = {}
        self._handlers: dict[int, RequestHandler] = {
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._info,
        }

    def open(self) -> None:
        """InvalidRequest when another consumer of the group lives here; nothing happens the second time."""
        if self._is_open:
            return
        self._instance.requests.join(self._group, self._handlers)
        self._is_open = True

    def close(self) -> None:
        self._instance.requests.part(self._group, self._handlers)

    def _status(self, link: Link, request: RemotingCommand) -> RemotingCommand | None:
        topic = from_ext(GetConsumerStatusRequestHeader, request.ext_fields).topic
        table = {queue: offset for queue, offset in self.committed.items() if queue.topic == topic}
        body = GetConsumerStatusBody(message_queue_table=table)
        return request.reply(ResponseCode.SUCCESS, None, None, encode_body(body))

    def _info(self, link: Link, request: RemotingCommand) -> RemotingCommand | None:
        kind = ConsumeType.CONSUME_ACTIVELY
        body = ConsumerRunningInfo(
            properties=running_properties(self._instance, self._group, kind, self._started_ms),
            subscription_set=list(self._subscriptions()),
        )
        return request.reply(ResponseCode.SUCCESS, None, None, encode_body(body))
