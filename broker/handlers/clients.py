"""Heartbeats, members of groups, and queue locks: codes 34, 35, 38, 41, 42, 46 (Java classes
`ClientManageProcessor`, `ConsumerManageProcessor`, `AdminBrokerProcessor`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import trio
from msgspec.structs import replace

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.filters import is_tag_type
from rmqcli.broker.handlers.common import no_filtering, when_compiled
from rmqcli.broker.net.handling import Answered, Reply, Request
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.turns import LongWork, Pace, Steps, emptying
from rmqcli.broker.services.clients import count_created, left_group, notify_group, steady_ms, watch_session
from rmqcli.broker.tables import ClientChannel, TooManyGroups
from rmqcli.broker.tables.groups import name_problem
from rmqcli.broker.tables.topics import UNIT_SUB
from rmqcli.codec.bodies.heartbeat import CheckClientRequestBody, ConsumerData, HeartbeatData
from rmqcli.codec.bodies.offsets import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rmqcli.codec.bodies.running import GetConsumerListByGroupResponseBody
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.errors import SelectorError
from rmqcli.codec.headers.clients import (
    GetConsumerListByGroupRequestHeader,
    GetConsumerListByGroupResponseHeader,
    UnregisterClientRequestHeader,
    UnregisterClientResponseHeader,
)
from rmqcli.codec.headers.signed import ACCESS_KEY
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import retry_topic
from rmqcli.codec.remoting.signature import received_ext_fields

QUEUES_PER_STEP = 8

_log = logging.getLogger(__name__)


def heartbeat(broker: BrokerContext, request: Request[None, HeartbeatData]) -> Answered[None, None]:
    """Register the client in its groups, except those with impossible names (code 34). Without subscriptions
    (5.x), the known ones are kept.
    """
    return LongWork(_heartbeat(broker, request))


def _heartbeat(broker: BrokerContext, request: Request[None, HeartbeatData]) -> Steps:
    slow: list[str] = []
    for consumer in request.body.consumer_data_set:
        expressions = (
            subscription.sub_string
            for subscription in consumer.subscription_data_set
            if not is_tag_type(subscription.expression_type)
        )
        slow += broker.filters.compiler.slow(expressions)
        yield
    if slow:
        return partial(_compile_and_register, broker, request, slow)
    return (yield from _register(broker, request))


async def _compile_and_register(
    broker: BrokerContext, request: Request[None, HeartbeatData], slow: list[str]
) -> Reply[None, None]:
    work = LongWork(_register(broker, request))
    await broker.filters.compiler.prepare(slow)
    await work.run(request.session.turns)
    reply = work.finish()
    return reply if isinstance(reply, Reply) else await reply


def _register(broker: BrokerContext, request: Request[None, HeartbeatData]) -> Steps:
    data, session, command = request.body, request.session, request.command
    access_key = received_ext_fields(command).get(ACCESS_KEY)
    client = ClientChannel(
        session, data.client_id, command.language, command.version, steady_ms(), access_key
    )
    watch_session(broker, session)
    announced = broker.announcer.asked
    changed = []
    problem: str | None = None
    for consumer in data.consumer_data_set:
        if (wrong := name_problem(consumer.group_name)) is not None:
            problem = problem or wrong
            continue
        _ensure_group(broker, session, consumer)
        known = broker.consumers.get(consumer.group_name) if data.without_sub else None
        if known is not None:
            subscriptions = list(known.subscriptions.values())
            consumer = replace(consumer, subscription_data_set=subscriptions)
        with _bounded():
            is_changed = yield from broker.consumers.registering(consumer, client)
        if is_changed:
            changed.append(consumer.group_name)
        for error in broker.filters.register(consumer.group_name, consumer.subscription_data_set):
            _log.error("a filter of group %s does not compile: %s", consumer.group_name, error)
        yield
    for producer in data.producer_data_set:
        with _bounded():
            broker.producers.register(producer.group_name, client)
        yield
    yield from emptying(data.consumer_data_set)  # safe, because the list is not shared
    if broker.announcer.asked > announced:
        return partial(_notify_when_known, broker, changed, session.turns.pace(), problem)
    for group in changed:
        notify_group(broker, group)
        yield
    return partial(_registered, problem)


def _registered(problem: str | None) -> Reply[None, None]:
    """Return the reply to a heartbeat. Raises Refusal with `problem` if one of its groups cannot exist; all
    others are registered.
    """
    if problem is not None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, problem)
    return Reply()


@contextmanager
def _bounded() -> Iterator[None]:
    """Turn TooManyGroups in the block into a Refusal."""
    try:
        yield
    except TooManyGroups as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None


async def _notify_when_known(
    broker: BrokerContext, groups: Iterable[str], pace: Pace, problem: str | None
) -> Reply[None, None]:
    """Notify groups once the name servers know the retry topic, and return the reply. A member that
    rebalances earlier would get the queues of the retry topic only when it next refreshes its routes.
    """
    # The other members have to be notified, even if this one disconnects meanwhile.
    with trio.CancelScope(shield=True):
        await broker.announcer.settled()
        for group in groups:
            notify_group(broker, group)
            await pace.step()
    return _registered(problem)


def _ensure_group(broker: BrokerContext, session: Session, consumer: ConsumerData) -> None:
    """Create the group and its retry topic. They are saved later, because the next heartbeat would create
    them again."""
    config, made = broker.groups.find(consumer.group_name)
    if made:
        count_created(broker, session, partial(broker.groups.remove, consumer.group_name))
        broker.files.groups_changed()
    if config is None:
        return
    topic, created = broker.topics.ensure(
        retry_topic(consumer.group_name),
        config.retry_queue_nums,
        sys_flag=UNIT_SUB if consumer.unit_mode else 0,
    )
    if created:
        broker.files.topics_changed()
        broker.announcer.announce([topic])


def unregister(
    broker: BrokerContext, request: Request[UnregisterClientRequestHeader, None]
) -> Reply[UnregisterClientResponseHeader, None]:
    """Remove the client from a producer group, a consumer group, or both (code 35)."""
    header, session = request.header, request.session
    if header.producer_group is not None:
        broker.producers.unregister(header.producer_group, session)
    if header.consumer_group is not None and broker.consumers.unregister(header.consumer_group, session):
        broker.pops.waiting.release_member(header.consumer_group, session)
        left_group(broker, header.consumer_group)
    return Reply(UnregisterClientResponseHeader())


def consumer_list(
    broker: BrokerContext, request: Request[GetConsumerListByGroupRequestHeader, None]
) -> Reply[GetConsumerListByGroupResponseHeader, GetConsumerListByGroupResponseBody]:
    """Return the client ids of a group that is online (code 38)."""
    header = request.header
    group = broker.consumers.get(header.consumer_group)
    if group is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {header.consumer_group}", {})
    body = GetConsumerListByGroupResponseBody(consumer_id_list=group.client_ids())
    return Reply(GetConsumerListByGroupResponseHeader(), body)


def check_client(
    broker: BrokerContext, request: Request[None, CheckClientRequestBody]
) -> Answered[None, None]:
    """Refuse a subscription that the broker cannot serve (code 46); tags are always accepted."""
    subscription = request.body.subscription_data
    if subscription is None or is_tag_type(subscription.expression_type):
        return Reply()
    kind = subscription.expression_type
    if not broker.config.enable_property_filter:
        raise no_filtering(kind)
    return when_compiled(
        broker, [subscription.sub_string], partial(_check_expression, broker, subscription.sub_string, kind)
    )


def _check_expression(broker: BrokerContext, expression: str, kind: str) -> Reply[None, None]:
    try:
        broker.filters.compiler.compiled(expression, kind)
    except SelectorError as error:
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
    return Reply()


def lock(
    broker: BrokerContext, request: Request[None, LockBatchRequestBody]
) -> Answered[None, LockBatchResponseBody]:
    """Lock queues for a client (code 41); the reply lists those that the client now holds."""
    return LongWork(_lock(broker, request.body))


def _lock(broker: BrokerContext, body: LockBatchRequestBody) -> Steps:
    locks, now, held = broker.locks, steady_ms(), []
    if locks.is_full:
        yield from locks.expire(now)
    if locks.is_full:
        _log.warning(
            "group %s: there are %d locks of queues, no more are given", body.consumer_group, len(locks)
        )
    for queues in _parts(body.mq_set):
        held += locks.lock(body.consumer_group or "", body.client_id or "", queues, now)
        yield
    yield from emptying(body.mq_set)
    return lambda: Reply(body=LockBatchResponseBody(lock_ok_mq_set=held))


def unlock(broker: BrokerContext, request: Request[None, UnlockBatchRequestBody]) -> Answered[None, None]:
    """Release locks that the client holds (code 42)."""
    return LongWork(_unlock(broker, request.body))


def _unlock(broker: BrokerContext, body: UnlockBatchRequestBody) -> Steps:
    for queues in _parts(body.mq_set):
        broker.locks.unlock(body.consumer_group or "", body.client_id or "", queues)
        yield
    yield from emptying(body.mq_set)
    return Reply


def _parts(queues: list[MessageQueue]) -> Iterator[list[MessageQueue]]:
    return (queues[start : start + QUEUES_PER_STEP] for start in range(0, len(queues), QUEUES_PER_STEP))
