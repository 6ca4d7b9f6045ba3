"""Allocation of queues by the broker, and the mode in which a group consumes a topic: codes 400, 401, 402
(Java class `QueryAssignmentProcessor`).

A member whose client leaves allocation to brokers (`setClientRebalance(false)`) queries one of them at each
rebalance. Brokers may disagree about the members for a moment, just like clients that do the allocation
themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import BrokerError, Refusal
from rmqcli.broker.net.handling import Reply, Request
from rmqcli.broker.services.clients import count_created
from rmqcli.broker.tables.request_modes import POP, PULL, mode_problem
from rmqcli.codec.allocation import STRATEGIES
from rmqcli.codec.bodies.heartbeat import MessageModel
from rmqcli.codec.bodies.pop import (
    MessageQueueAssignment,
    MessageRequestModeSerializeWrapper,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.message import RETRY_PREFIX
from rmqcli.codec.message_queue import MessageQueue

ALL_QUEUES = -1
"""The queue id with which a pop requests messages of all queues of a broker."""


async def query_assignment(
    broker: BrokerContext, request: Request[None, QueryAssignmentRequestBody]
) -> Reply[None, QueryAssignmentResponseBody]:
    """Return the queues that a member of a group should pull from (code 400).

    The reply has no assignments for a topic without a route or a group that is offline. For an unknown
    strategy, Java replies in the same way, and its client then waits without a reason; here it is refused.
    """
    body = request.body
    if body.message_model is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "messageModel: BROADCASTING or CLUSTERING is expected")
    if body.message_model is MessageModel.CLUSTERING and body.strategy_name not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        remark = (
            f"strategy {body.strategy_name!r} is not known to brokers, only {known}: allocate in the client"
        )
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    try:
        queues = await broker.routes.queues(body.topic)
    except BrokerError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
    mode = broker.request_modes.get(body.topic, body.consumer_group)
    mine = None if queues is None else _allocated(broker, body, queues, mode)
    name = PULL if mode is None or body.message_model is MessageModel.BROADCASTING else mode.mode
    assigned = (
        None if mine is None else [MessageQueueAssignment(message_queue=one, mode=name) for one in mine]
    )
    return Reply(body=QueryAssignmentResponseBody(message_queue_assignments=assigned))


def _allocated(
    broker: BrokerContext,
    body: QueryAssignmentRequestBody,
    queues: tuple[MessageQueue, ...],
    mode: SetMessageRequestModeRequestBody | None,
) -> list[MessageQueue] | None:
    if body.message_model is MessageModel.BROADCASTING:
        return list(queues)
    group = broker.consumers.get(body.consumer_group)
    if group is None:
        return None
    members = sorted(group.client_ids())
    if body.client_id not in members or not queues:
        return []
    if mode is None or mode.mode != POP:
        return STRATEGIES[body.strategy_name](body.client_id, queues, members)
    return _to_pop(body, queues, members, mode.pop_share_queue_num)


def _to_pop(
    body: QueryAssignmentRequestBody, queues: Sequence[MessageQueue], members: list[str], share: int
) -> list[MessageQueue]:
    """Return the queues that a member pops: all, or its own and those of the `share` members after it."""
    place = members.index(body.client_id)
    if share <= 0 or share >= len(members) - 1:
        brokers = dict.fromkeys(queue.broker_name for queue in queues)
        return [MessageQueue(body.topic, name, ALL_QUEUES) for name in brokers]
    if len(members) > len(queues):
        return [queues[place % len(queues)]]
    sharing = [members[(place + number) % len(members)] for number in range(share + 1)]
    allocate = STRATEGIES[body.strategy_name]
    shared = (queue for member in sharing for queue in allocate(member, queues, members))
    return list(dict.fromkeys(shared))


def set_request_mode(
    broker: BrokerContext, request: Request[None, SetMessageRequestModeRequestBody]
) -> Reply[None, None]:
    """Set the mode in which a group consumes a topic (code 401). As in Java, the group is created."""
    body = request.body
    if (problem := mode_problem(body)) is not None:
        raise Refusal(ResponseCode.INVALID_PARAMETER, problem)
    if body.topic.startswith(RETRY_PREFIX):
        raise Refusal(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if broker.topics.get(body.topic) is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{body.topic}] not exist")
    config, created = broker.groups.find(body.consumer_group)
    if config is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
    if created:
        count_created(broker, request.session, partial(broker.groups.remove, body.consumer_group))
        broker.groups_changed()
    broker.request_modes.set(body)
    broker.store.barrier = broker.files.save_changed
    return Reply()


def request_modes(
    broker: BrokerContext, _request: Request[None, None]
) -> Reply[None, MessageRequestModeSerializeWrapper]:
    """Return the modes that were set (code 402)."""
    return Reply(body=broker.request_modes.wrapper())
