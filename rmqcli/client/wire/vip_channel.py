"""The VIP channel: brokers of Java also listen two ports below their own (Java `MixAll.brokerVIPChannel`)."""

from __future__ import annotations

from codec.codes import RequestCode as R

VIP_CODES = frozenset(
    {
        *(R.SEND_MESSAGE, R.SEND_MESSAGE_V2, R.SEND_BATCH_MESSAGE),
        *(R.SEND_REPLY_MESSAGE, R.SEND_REPLY_MESSAGE_V2),
        *(R.CONSUMER_SEND_MSG_BACK, R.CHECK_CLIENT_CONFIG),
        *(R.GET_CONSUMER_LIST_BY_GROUP, R.LOCK_BATCH_MQ),
        *(R.QUERY_CONSUMER_OFFSET, R.UPDATE_CONSUMER_OFFSET),
        *(R.GET_MAX_OFFSET, R.GET_MIN_OFFSET, R.SEARCH_OFFSET_BY_TIMESTAMP),
        *(R.QUERY_MESSAGE, R.VIEW_MESSAGE_BY_ID, R.GET_EARLIEST_MSG_STORETIME),
        *(R.UPDATE_AND_CREATE_TOPIC, R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP),
    }
)
"""Requests for the VIP channel when it is enabled; never pulls, heartbeats, ends of transactions."""


def vip_address(address: str) -> str:
    """The address two ports below; one without a port is returned unchanged and fails to connect."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}" if port.isdecimal() else address
