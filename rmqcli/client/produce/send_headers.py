"""Send requests. Plain messages to one queue differ in two header fields; the rest is encoded once."""

from __future__ import annotations

from codec.errors import LocalProtocolError
from codec.headers.send import SendMessageRequestHeaderV2
from codec.message import SystemTopic
from codec.message_queue import MessageQueue
from codec.remoting.frame import RemotingCommand
from codec.remoting.send_frames import SendRequest, SendTemplate
from rmqcli.client.errors import InvalidRequest
from rmqcli.client.instance import ClientInstance
from rmqcli.client.produce.outgoing import Outgoing
from rmqcli.client.wire.requests import request_of

MAX_KEPT = 4096  # queues whose header is kept


class SendHeaders:
    """The send requests of one producer group."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._kept: dict[MessageQueue, SendTemplate] = {}

    def request(self, outgoing: Outgoing, queue: MessageQueue) -> RemotingCommand | SendRequest:
        """Return a new request for every attempt; InvalidRequest when a name cannot be sent."""
        if not outgoing.is_plain:
            return self.command(outgoing, queue)
        template = self._kept.get(queue)
        if template is None:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            template = self._kept[queue] = self._template(outgoing, queue)
        return SendRequest(template, self._instance.now_ms(), outgoing.properties, outgoing.body)

    def command(self, outgoing: Outgoing, queue: MessageQueue) -> RemotingCommand:
        """Return the same request without a template."""
        return request_of(outgoing.operation, self._header(outgoing, queue), outgoing.body)

    def _template(self, outgoing: Outgoing, queue: MessageQueue) -> SendTemplate:
        try:
            return SendTemplate(self._header(outgoing, queue), self._instance.pool.signer)
        except LocalProtocolError as error:
            raise InvalidRequest(f"{outgoing.operation.name} cannot be sent: {error}") from error

    def _header(self, outgoing: Outgoing, queue: MessageQueue) -> SendMessageRequestHeaderV2:
        return SendMessageRequestHeaderV2(
            producer_group=self._group,
            topic=outgoing.topic,
            default_topic=SystemTopic.AUTO_CREATE,
            default_topic_queue_nums=self._instance.default_queues,
            queue_id=queue.queue_id,
            sys_flag=outgoing.sys_flag,
            born_timestamp=self._instance.now_ms(),
            flag=outgoing.flag,
            properties=outgoing.properties,
            reconsume_times=outgoing.reconsume_times,
            unit_mode=self._instance.unit_mode,
            max_reconsume_times=outgoing.max_reconsume_times,
            batch=outgoing.batch,
            bname=queue.broker_name,
        )
