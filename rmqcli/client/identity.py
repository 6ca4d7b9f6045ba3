"""Who a client is to brokers, and at which of their ports it asks (Java `ClientConfig`, `MixAll.brokerVIPChannel`)."""

from __future__ import annotations

import re

from codec.codes import RequestCode
from codec.message import check_group
from rmqcli.client.errors import InvalidRequest

__all__ = [
    "DEFAULT_NAME",
    "VIP_CODES",
    "check_consumer_group",
    "check_producer_group",
    "client_id",
    "vip_address",
]

DEFAULT_NAME = "DEFAULT"
"""The instance name of broadcasting consumers that have none: their offsets file is found again by it."""
FORBIDDEN_CONSUMER, FORBIDDEN_PRODUCER = "DEFAULT_CONSUMER", "DEFAULT_PRODUCER"
_NOT_A_NAME = re.compile(r"[/\x00-\x1f\x7f]|^\.{0,2}$")

VIP_CODES = frozenset(
    {
        *(RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE),
        *(RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2),
        *(RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.CHECK_CLIENT_CONFIG),
        *(RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.LOCK_BATCH_MQ),
        *(RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET),
        *(RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP),
        *(RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.GET_EARLIEST_MSG_STORETIME),
        *(RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP),
    }
)
"""Requests that go by the VIP channel where it is on; pulls, heartbeats and ends of transactions never do."""


def client_id(ip: str, instance_name: str, unit_name: str | None) -> str:
    """`ip@instance` or `ip@instance@unit`; InvalidRequest for names that no folder can have: offsets files lie in one."""
    for kind, name in (("instance_name", instance_name), ("unit_name", unit_name)):
        if name is not None and _NOT_A_NAME.search(name):
            raise InvalidRequest(f"{kind} {name!r} is empty, or holds a slash or a control character")
    return "@".join(part for part in (ip, instance_name, unit_name) if part is not None)


def check_consumer_group(group: str) -> None:
    """InvalidRequest for a name that no group can have, and for the one that Java's consumers refuse."""
    _check_group(group, FORBIDDEN_CONSUMER)


def check_producer_group(group: str) -> None:
    """InvalidRequest for a name that no group can have, and for the one that Java's producers refuse."""
    _check_group(group, FORBIDDEN_PRODUCER)


def _check_group(group: str, forbidden: str) -> None:
    if group == forbidden:
        raise InvalidRequest(f"the group name {forbidden} is not allowed")
    try:
        check_group(group)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None


def vip_address(address: str) -> str:
    """The port two below; an address without a port stays, for whoever connects to complain of."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}" if port.isdecimal() else address
