"""What brokers ask of a lite pull consumer: its offsets (221) and its running info (307). A reset is not for it, as in Java."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from codec.bodies.base import encode_body
from codec.bodies.heartbeat import ConsumeType, SubscriptionData
from codec.bodies.offsets import GetConsumerStatusBody
from codec.bodies.running import ConsumerRunningInfo, ProcessQueueInfo
from codec.codes import RequestCode, ResponseCode
from codec.headers.base import from_ext
from codec.headers.offsets import GetConsumerStatusRequestHeader
from codec.message_queue import MessageQueue
from codec.remoting.frame import RemotingCommand
from rmqcli.client.group.broker_requests import RequestHandler
from rmqcli.client.group.running_properties import NONE_YET, running_properties
from rmqcli.client.instance import ClientInstance
from rmqcli.client.lite.held import Held
from rmqcli.client.lite.settings import MIB, LiteSettings
from rmqcli.client.wire.link import Link

__all__ = ["LiteRequests"]


class LiteRequests:
    """The answers of one consumer."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: LiteSettings,
        held: Mapping[MessageQueue, Held],
        subscriptions: Callable[[], Collection[SubscriptionData]],
    ) -> None:
        self._instance = instance
        self._group = group
        self._settings = settings
        self._held = held
        self._subscriptions = subscriptions
        self._started_ms = instance.now_ms()
        self._handlers: dict[int, RequestHandler] = {
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._info,
        }

    def open(self) -> None:
        """InvalidRequest when another consumer of the group lives here."""
        self._instance.requests.join(self._group, self._handlers)

    def close(self) -> None:
        self._instance.requests.part(self._group, self._handlers)

    def _status(self, link: Link, request: RemotingCommand) -> RemotingCommand | None:
        header = from_ext(GetConsumerStatusRequestHeader, request.ext_fields)
        table = {
            queue: held.consumed
            for queue, held in self._held.items()
            if queue.topic == header.topic and held.consumed is not None
        }
        body = GetConsumerStatusBody(message_queue_table=table)
        return request.reply(ResponseCode.SUCCESS, None, None, encode_body(body))

    def _info(self, link: Link, request: RemotingCommand) -> RemotingCommand | None:
        body = ConsumerRunningInfo(
            properties=self._properties(),
            subscription_set=list(self._subscriptions()),
            mq_table={queue: _queue_info(held) for queue, held in sorted(self._held.items())},
        )
        return request.reply(ResponseCode.SUCCESS, None, None, encode_body(body))

    def _properties(self) -> dict[str, str]:
        settings = self._settings
        return {
            **running_properties(self._instance, self._group, ConsumeType.CONSUME_ACTIVELY, self._started_ms),
            "messageModel": str(settings.message_model),
            "consumeFromWhere": str(settings.consume_from),
            "pullBatchSize": str(settings.pull_batch_size),
            "pullThresholdForAll": str(settings.all_messages),
            "pullThresholdForQueue": str(settings.queue_messages),
            "pullThresholdSizeForQueue": str(settings.queue_bytes // MIB),
            "consumeMaxSpan": str(settings.max_span),
            "autoCommit": str(settings.auto_commit).lower(),
            "autoCommitIntervalMillis": str(round(settings.commit_interval * 1000)),
        }


def _queue_info(held: Held) -> ProcessQueueInfo:
    first, last = (held.batches[0][0], held.batches[-1][-1]) if held.batches else (None, None)
    return ProcessQueueInfo(
        commit_offset=NONE_YET if held.consumed is None else held.consumed,
        cached_msg_min_offset=0 if first is None else first.queue_offset,
        cached_msg_max_offset=0 if last is None else last.queue_offset,
        cached_msg_count=held.count,
        cached_msg_size_in_mib=held.size // MIB,
        droped=held.dropped,
    )
