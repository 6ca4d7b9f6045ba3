"""What a consumer says of itself when an administrator asks (307), in the form that Java's mqadmin analyses."""

from __future__ import annotations

import sys
import traceback
from collections import OrderedDict
from dataclasses import fields

from codec.bodies.heartbeat import ConsumeType
from codec.bodies.running import ConsumerRunningInfo, ProcessQueueInfo
from codec.message import MessageExt
from codec.message_queue import MessageQueue
from rmqcli.client.group.running_properties import NONE_YET, running_properties
from rmqcli.client.push.process_queue import ProcessQueue
from rmqcli.client.push.settings import MIB
from rmqcli.client.push.state import GroupState

__all__ = ["running_info"]

# Ours → Java's name of the same option, where it is more than another spelling; all times there are ms.
_JAVA_NAMES = {
    "consumers": "consumeThreadMax",
    "batch_size": "consumeMessageBatchMaxSize",
    "pull_batch_size": "pullBatchSize",
    "max_span": "consumeConcurrentlyMaxSpan",
    "queue_messages": "pullThresholdForQueue",
    "topic_messages": "pullThresholdForTopic",
    "max_reconsume_times": "maxReconsumeTimes",
    "post_subscription": "postSubscriptionWhenPull",
    "message_model": "messageModel",
    "consume_from": "consumeFromWhere",
}


def running_info(state: GroupState, *, stacks: bool = False) -> ConsumerRunningInfo:
    """Everything as of now; `stacks` adds the stack of every thread."""
    return ConsumerRunningInfo(
        properties=_properties(state),
        subscription_set=[subscription.data for subscription in state.subscriptions.values()],
        mq_table={queue: _queue_info(state, queue, held) for queue, held in sorted(state.queues.items())},
        status_table={topic: state.statistics[topic].status() for topic in state.subscriptions},
        jstack=_stacks() if stacks else None,
    )


def _properties(state: GroupState) -> dict[str, str]:
    settings = state.settings
    named = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {
        **running_properties(
            state.instance,
            state.group,
            ConsumeType.CONSUME_PASSIVELY,
            state.started_ms,
            orderly=state.orderly,
        ),
        "PROP_THREADPOOL_CORE_SIZE": str(settings.consumers),
        "consumeThreadMin": str(settings.consumers),
        "pullInterval": str(round(settings.pull_interval * 1000)),
        "pullThresholdSizeForQueue": str(settings.queue_bytes // MIB),
        "pullThresholdSizeForTopic": str(settings.topic_bytes // MIB),
        "consumeTimeout": str(round(settings.consume_timeout / 60)),
        "suspendCurrentQueueTimeMillis": str(round(settings.suspend_time * 1000)),
        **{java: _text(named[ours]) for ours, java in _JAVA_NAMES.items()},
    }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _queue_info(state: GroupState, queue: MessageQueue, held: ProcessQueue) -> ProcessQueueInfo:
    first, last = _ends(held.messages)
    committed = state.offsets.memory(queue)
    taken_first, taken_last = _ends(held.taken)
    return ProcessQueueInfo(
        commit_offset=NONE_YET if committed is None else committed,
        cached_msg_min_offset=first,
        cached_msg_max_offset=last,
        cached_msg_count=len(held.messages),
        cached_msg_size_in_mib=held.size // MIB,
        transaction_msg_min_offset=taken_first,
        transaction_msg_max_offset=taken_last,
        transaction_msg_count=len(held.taken),
        locked=held.locked,
        try_unlock_times=held.unlock_tries,
        last_lock_timestamp=held.last_lock_ms,
        droped=held.dropped,
        last_pull_timestamp=held.last_pull_ms,
        last_consume_timestamp=held.last_consume_ms,
    )


def _ends(messages: OrderedDict[int, MessageExt]) -> tuple[int, int]:
    return (next(iter(messages)), next(reversed(messages))) if messages else (0, 0)


def _stacks() -> str:
    return "\n".join(
        f"thread {ident}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )
