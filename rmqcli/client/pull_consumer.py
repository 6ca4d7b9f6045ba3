"""Reading queues at one's own pace (Java `DefaultMQPullConsumer`): pull, long poll, offsets. Joins no group and moves no
offset unless told to `commit`.

The broker matches hashes of tags; tags are compared again here, so a hash collision never shows. Bodies come decompressed.
A slave is read when the master cannot be reached, or when the broker suggests it.
"""

from __future__ import annotations

from typing import Unpack

import msgspec

from codec.codes import PullSysFlag, RequestCode
from codec.errors import CodecError, SelectorError
from codec.frame import RemotingCommand
from codec.headers import PullMessageRequestHeader, PullMessageResponseHeader
from codec.message import MessageExt, check_group
from codec.queue import MessageQueue
from codec.record import decode_records
from codec.selector import parse_tags
from rmqcli.client.errors import CorruptReply, InvalidRequest
from rmqcli.client.instance import Client, ClientInstance, InstanceOptions, reply_header
from rmqcli.client.offsets import OffsetCalls
from rmqcli.client.results import PullResult, PullStatus
from rmqcli.client.routes import MASTER_ID

__all__ = ["MAX_BATCH", "TOOLS_GROUP", "PullConsumer"]

TOOLS_GROUP = "TOOLS_CONSUMER"  # a group that every broker knows, even when it creates none by itself
MAX_BATCH = 1024
_STATUS = {status.value.value: status for status in PullStatus}


class PullConsumer(OffsetCalls, Client):
    """Reads messages by queue and offset. `group` names the reader to the broker (permissions, statistics, offsets)."""

    def __init__(
        self,
        group: str | None = None,
        *,
        instance: ClientInstance | None = None,
        **options: Unpack[InstanceOptions],
    ) -> None:
        super().__init__(instance, options)
        self.group: str = group or TOOLS_GROUP
        try:
            check_group(self.group)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None
        self._suggested: dict[MessageQueue, int] = {}

    async def message_queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic, sorted by broker name and number; NoRoute when the topic is unknown."""
        return list((await self.instance.route(topic)).subscribe)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_nums: int = 32,
        expression: str = "*",
        *,
        suspend: float = 0.0,
        timeout: float | None = None,
        expression_type: str = "TAG",
    ) -> PullResult:
        """Messages from `offset` on; go on at `next_begin_offset`.

        `suspend`: seconds the broker may wait for a message when there is none (long poll); `timeout` (seconds) is added
        to it. An offset outside the queue is the status OFFSET_ILLEGAL, not an error; whatever the broker refuses raises.
        """
        tags = _tags(expression) if expression_type == "TAG" else frozenset()
        header = PullMessageRequestHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=min(max_nums, MAX_BATCH),
            sys_flag=PullSysFlag.SUBSCRIPTION | (PullSysFlag.SUSPEND if suspend > 0 else 0),
            commit_offset=0,
            suspend_timeout_millis=round(suspend * 1000),
            subscription=expression or "*",
            sub_version=0,
            expression_type=expression_type,
            bname=queue.broker_name,
        )
        reply = await self.instance.read_queue(
            queue,
            RequestCode.PULL_MESSAGE,
            header,
            timeout=(timeout or self.instance.timeout) + suspend,
            prefer=self._suggested.get(queue, MASTER_ID),
            ok=_STATUS,
        )
        return self._result(queue, reply, tags)

    def _result(self, queue: MessageQueue, reply: RemotingCommand, tags: frozenset[str]) -> PullResult:
        header = reply_header(PullMessageResponseHeader, reply, queue.broker_name, RequestCode.PULL_MESSAGE)
        if header.suggest_which_broker_id is not None:
            self._suggested[queue] = header.suggest_which_broker_id
        status = _STATUS[reply.code]
        messages = read_messages(reply.body, queue.broker_name) if status is PullStatus.FOUND else []
        if tags:
            messages = [message for message in messages if message.tags in tags]
        return PullResult(status, header.next_begin_offset, header.min_offset, header.max_offset, messages)


def _tags(expression: str) -> frozenset[str]:
    try:
        return parse_tags(expression)
    except SelectorError as error:
        raise InvalidRequest(str(error)) from error


def read_messages(body: bytes | memoryview, broker_name: str) -> list[MessageExt]:
    """The messages of a reply body, decompressed; CorruptReply when one of them is damaged."""
    try:
        messages = decode_records(body, check_crc=False, decompress=True)
    except CodecError as error:
        raise CorruptReply(broker_name, str(error)) from error
    for message in messages:
        msgspec.structs.force_setattr(message, "broker_name", broker_name)
    return messages
