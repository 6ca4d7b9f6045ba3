"""The ends of queues that a broker leaves out of its statistics of a topic.

GET_TOPIC_STATS_INFO (202) of 4.9 lists the write queues only. While a topic has more read queues than write
queues, which is how one takes queues out of use, those that consumers have yet to empty are missing there.
"""

from __future__ import annotations

from codec.bodies.route import TopicRouteData
from codec.bodies.stats import TopicOffset
from codec.codes import PullSysFlag, ResponseCode
from codec.headers.offsets import GetMaxOffsetRequestHeader, GetMinOffsetRequestHeader
from codec.headers.pull import PullMessageRequestHeader
from codec.message_queue import MessageQueue
from codec.operations.messages import PULL_MESSAGE
from codec.operations.offsets import GET_MAX_OFFSET, GET_MIN_OFFSET
from rmqcli.client.errors import BrokerRefused
from rmqcli.client.instance import ClientInstance
from rmqcli.client.pull.consumer import TOOLS_GROUP
from rmqcli.client.results import PULL_STATUSES
from rmqcli.client.wire.messages import read_messages


def every_queue(topic: str, data: TopicRouteData) -> list[MessageQueue]:
    """Return the queues of a topic that are written or read: 0 to the larger number of both, by broker."""
    return [
        MessageQueue(topic, one.broker_name, number)
        for one in data.queue_datas
        for number in range(max(one.read_queue_nums, one.write_queue_nums))
    ]


async def ends_of(instance: ClientInstance, address: str, queue: MessageQueue) -> TopicOffset:
    """Return what the statistics of a topic would say of a queue; ClientError."""
    topic, name, number = queue.topic, queue.broker_name, queue.queue_id
    at_least = GetMinOffsetRequestHeader(topic=topic, queue_id=number, bname=name)
    at_most = GetMaxOffsetRequestHeader(topic=topic, queue_id=number, bname=name)
    low = max(0, (await instance.ask(address, GET_MIN_OFFSET, at_least, None)).header.offset)
    high = max(0, (await instance.ask(address, GET_MAX_OFFSET, at_most, None)).header.offset)
    last = await _store_time(instance, address, queue, high - 1) if high > low else 0
    return TopicOffset(min_offset=low, max_offset=high, last_update_timestamp=last)


async def _store_time(instance: ClientInstance, address: str, queue: MessageQueue, offset: int) -> int:
    """Return the store time of a message, 0 when it may not be read. No request asks for the time alone."""
    header = PullMessageRequestHeader(
        consumer_group=TOOLS_GROUP,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=1,
        sys_flag=int(PullSysFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
        bname=queue.broker_name,
    )
    try:
        reply = await instance.call(address, PULL_MESSAGE.code, header, ok=PULL_STATUSES)
    except BrokerRefused:
        return 0  # a topic or account without the permission to read
    if reply.code != ResponseCode.SUCCESS:
        return 0
    messages = (await read_messages(reply.body, queue.broker_name, begin=offset)).messages
    return messages[-1].store_timestamp if messages else 0
