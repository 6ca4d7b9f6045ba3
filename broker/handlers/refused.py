"""Codes that RocketMQ names and this broker does not serve, with the reasons.

Every operation that a broker receives has a handler or a reason here, which a test checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.session import Session
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.remoting.command import RemotingCommand


def _because(reason: str, codes: Iterable[R]) -> dict[R, str]:
    return dict.fromkeys(codes, reason)


REASONS: Final[Mapping[R, str]] = {
    R.POP_ROLLBACK: "the broker keeps what is in flight in config/popInFlight.json, not in RocksDB",
    **_because(
        "the store has no RocksDB", [R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, R.EXPORT_ROCKSDB_CONFIG_TO_JSON]
    ),
    R.UPDATE_AND_CREATE_STATIC_TOPIC: "the broker has no static topics",
    **_because(
        "the broker follows no controller",
        [
            R.EXCHANGE_BROKER_HA_INFO,
            R.GET_BROKER_EPOCH_CACHE,
            R.NOTIFY_BROKER_ROLE_CHANGED,
            R.NOTIFY_MIN_BROKER_ID_CHANGE,
        ],
    ),
    **_because("the broker is no container of brokers", [R.ADD_BROKER, R.REMOVE_BROKER]),
    R.SWITCH_TIMER_ENGINE: "timers are in the timer wheel, never in RocksDB",
    **_because(
        "the broker has no lite topics",
        [
            R.POP_LITE_MESSAGE,
            R.LITE_SUBSCRIPTION_CTL,
            R.ACK_LITE_MESSAGE,
            R.GET_BROKER_LITE_INFO,
            R.GET_PARENT_TOPIC_INFO,
            R.GET_LITE_TOPIC_INFO,
            R.GET_LITE_CLIENT_INFO,
            R.GET_LITE_GROUP_INFO,
            R.TRIGGER_LITE_DISPATCH,
        ],
    ),
    R.REGISTER_FILTER_SERVER: "there are no filter servers, as in 4.9",
}


def unsupported(_session: Session, request: RemotingCommand) -> RemotingCommand:
    """Refuse a code that RocketMQ names and this broker does not serve."""
    code = R(request.code)
    remark = f" request type {request.code} not supported: {code.name}"
    reason = REASONS.get(code)
    raise Refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"{remark}: {reason}" if reason else remark)
