"""Return of messages that were not consumed.

They go to the broker that stored them (36), or as new messages to %RETRY%group. The broker delivers them
again after a delay, or turns them into dead letters after too many attempts.
"""

from __future__ import annotations

import msgspec

from rmqcli.client.errors import UNREACHED, ClientError
from rmqcli.client.produce.producer import Producer
from rmqcli.client.push.state import GroupState, log
from rmqcli.codec.headers.send import ConsumerSendMsgBackRequestHeader
from rmqcli.codec.message import Message, MessageExt, PropertyName, retry_topic
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.messages import CONSUMER_SEND_MSG_BACK

SEND_BACK_TIMEOUT = 5.0  # seconds, as in Java
FIRST_RETRY_LEVEL = 3  # brokers count in the same way: level 3 + reconsumeTimes
DEAD_LETTER = -1
"""The delay level that makes a broker create a dead letter at once."""


class SendBack:
    """Sends back the messages of one consumer; `producer` is the CLIENT_INNER_PRODUCER of the instance."""

    def __init__(self, state: GroupState, producer: Producer) -> None:
        self._state = state
        self._producer = producer
        self._limit = state.settings.reconsume_limit(state.orderly)

    async def send_back(self, message: MessageExt, delay_level: int) -> bool:
        """Return a message. True if a broker has it. `delay_level` 0: the broker decides; -1: dead letter."""
        try:
            await self._to_broker(message, delay_level)
        except ClientError as error:
            if isinstance(error, UNREACHED):
                self._state.instance.outages.failed("sending back to", message.queue, error)
            else:
                log.warning(
                    "the broker refused to take %s back; sending it to the retry topic: %s",
                    message.msg_id,
                    error,
                )
            return await self.send_to_retry_topic(message)
        return True

    async def send_to_retry_topic(self, message: MessageExt) -> bool:
        """Send a message to the retry topic, on any broker. Return True if it was stored."""
        try:
            await self._producer.send(self._retry_message(message), timeout=SEND_BACK_TIMEOUT)
        except ClientError as error:
            log.warning("%s could not be sent to the retry topic: %s", message.msg_id, error)
            return False
        return True

    async def give_up(self, message: MessageExt) -> bool:
        """Make a dead letter of a message that has reached the limit. Return True if a broker has it.

        The broker that stored it can do so even if the message is too large to be sent to the retry topic.
        """
        return await self.send_to_retry_topic(message) or await self.to_dead_letters(message)

    async def to_dead_letters(self, message: MessageExt) -> bool:
        """Let the broker that stored a message make a dead letter of it. Return True if it did."""
        try:
            await self._to_broker(message, DEAD_LETTER)
        except ClientError as error:
            log.warning("the broker refused to make a dead letter of %s: %s", message.msg_id, error)
            return False
        return True

    async def _to_broker(self, message: MessageExt, delay_level: int) -> None:
        instance = self._state.instance
        topic = instance.namespace.wrap(message.topic)
        queue = MessageQueue(topic, message.broker_name, message.queue_id)
        address = (await instance.broker_addresses(queue))[0]
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.commit_log_offset,
            group=self._state.group,
            delay_level=delay_level,
            origin_msg_id=message.msg_id,
            origin_topic=topic,
            max_reconsume_times=self._limit,
            unit_mode=instance.unit_mode,
        )
        await instance.ask(address, CONSUMER_SEND_MSG_BACK, header, None, timeout=SEND_BACK_TIMEOUT)

    def _retry_message(self, message: MessageExt) -> Message:
        properties = dict(message.properties)
        properties.pop(PropertyName.TRAN_MSG, None)
        properties.setdefault(PropertyName.ORIGIN_MESSAGE_ID, message.msg_id)
        properties[PropertyName.RETRY_TOPIC] = self._state.instance.namespace.wrap(message.topic)
        properties[PropertyName.RECONSUME_TIME] = str(message.reconsume_times + 1)
        properties[PropertyName.MAX_RECONSUME_TIMES] = str(self._limit)
        properties[PropertyName.DELAY] = str(FIRST_RETRY_LEVEL + message.reconsume_times)
        topic = retry_topic(self._state.group)
        return Message(topic=topic, body=message.body, flag=message.flag, properties=properties)


def as_original(messages: list[MessageExt], retry: str) -> None:
    """Restore the original topic of retried messages, for the listener."""
    for message in messages:
        original = message.properties.get(PropertyName.RETRY_TOPIC)
        if original and message.topic == retry:
            msgspec.structs.force_setattr(message, "topic", original)


def consumed_again(message: MessageExt) -> None:
    """Count one more consumption of a message that stays in the client."""
    msgspec.structs.force_setattr(message, "reconsume_times", message.reconsume_times + 1)
