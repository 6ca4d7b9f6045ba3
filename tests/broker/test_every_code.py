"""Every request that 4.9.8 sends to a broker is answered; what is not is named here, with the reason.

The codes of 4.9.8 are those of its RequestCode; those of 5.x that are served too, and one for tests, are a
bonus, listed as such.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rmqcli.broker.handlers import HANDLERS
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.errors import CodecError
from tests.broker.support import fake_broker
from tests.operations import OPERATIONS

R = RequestCode

LAST_CODE_OF_4 = 329
LATER_ADDITIONS = {R.UPDATE_AND_CREATE_TOPIC_LIST, R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, R.GET_TIMER_CHECK_POINT, R.GET_TIMER_METRICS}  # fmt: skip
"""Numbers below it that came with 5.x."""
FILTER_SERVERS = {R.REGISTER_FILTER_SERVER}
WITHOUT_PROCESSOR = {
    R.QUERY_BROKER_OFFSET,
    R.GET_TOPIC_CONFIG_LIST,
    R.GET_TOPIC_NAME_LIST,
    R.TRIGGER_DELETE_FILES,
    R.GET_CLIENT_CONFIG,
    R.SUSPEND_CONSUMER,
    R.RESUME_CONSUMER,
    R.RESET_CONSUMER_OFFSET_IN_CONSUMER,
    R.RESET_CONSUMER_OFFSET_IN_BROKER,
    R.ADJUST_CONSUMER_THREAD_POOL,
    R.WHO_CONSUME_THE_MESSAGE,
}
"""Codes that 4.9.8 names but no server of it answers."""
OF_5_SERVED_TOO = {
    R.LITE_PULL_MESSAGE,
    R.RECALL_MESSAGE,
    R.GET_TIMER_CHECK_POINT,
    R.GET_TIMER_METRICS,
    R.UPDATE_AND_CREATE_TOPIC_LIST,
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    R.GET_TOPIC_CONFIG,
    R.GET_SUBSCRIPTIONGROUP_CONFIG,
    R.QUERY_SUBSCRIPTION_BY_CONSUMER,
    R.QUERY_TOPICS_BY_CONSUMER,
    R.POP_MESSAGE,
    R.ACK_MESSAGE,
    R.BATCH_ACK_MESSAGE,
    R.CHANGE_MESSAGE_INVISIBLETIME,
    R.PEEK_MESSAGE,
    R.NOTIFICATION,
    R.POLLING_INFO,
    R.UPDATE_AND_GET_GROUP_FORBIDDEN,
    R.QUERY_ASSIGNMENT,
    R.SET_MESSAGE_REQUEST_MODE,
    R.GET_ALL_MESSAGE_REQUEST_MODE,
    R.GET_BROKER_HA_STATUS,
    R.RESET_MASTER_FLUSH_OFFSET,
    R.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
    R.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
    R.GET_COLD_DATA_FLOW_CTR_INFO,
    R.SET_COMMITLOG_READ_MODE,
    R.ADVANCE_CLOCK,
    *(code for code in R if R.AUTH_CREATE_USER <= code <= R.AUTH_LIST_ACL),
}


def to_brokers() -> set[RequestCode]:
    """The codes that a client, a tool or a slave sends to a broker."""
    return {
        code
        for code, operation in OPERATIONS.items()
        if "→B" in operation.direction and not operation.direction.startswith(("N→", "B→", "Ctl→"))
    }


def of_4(codes: Iterable[RequestCode]) -> set[RequestCode]:
    return {code for code in codes if code <= LAST_CODE_OF_4} - LATER_ADDITIONS


def names(codes: Iterable[RequestCode]) -> list[str]:
    return sorted(code.name for code in codes)


def test_every_request_of_4_9_to_a_broker_has_a_handler() -> None:
    missing = of_4(to_brokers()) - set(HANDLERS) - FILTER_SERVERS
    assert names(missing) == []


def test_the_exceptions_are_not_served_meanwhile() -> None:
    assert names((FILTER_SERVERS | WITHOUT_PROCESSOR) & set(HANDLERS)) == []
    assert to_brokers() >= FILTER_SERVERS
    nameless = {code for code, operation in OPERATIONS.items() if operation.direction == ""}
    assert names(of_4(nameless)) == names(WITHOUT_PROCESSOR)


def test_nothing_is_served_that_is_no_request_to_a_broker() -> None:
    assert names(set(HANDLERS) - to_brokers()) == []
    assert names(set(HANDLERS) - of_4(to_brokers())) == names(OF_5_SERVED_TOO)


async def test_a_request_with_nothing_in_it_is_answered_or_refused(tmp_path: Path) -> None:
    """No handler answers that it is not there, and none fails but for what it cannot read."""
    unserved = []
    async with fake_broker(tmp_path) as broker:
        for code in sorted(HANDLERS):
            client = broker.client()
            try:
                reply = await client.ask(code, {})
            except CodecError:
                continue
            if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                unserved.append(code)
    assert names(unserved) == []
