"""Asks brokers whether the account in use may do something, by requests that change nothing."""

from __future__ import annotations

from codec.acl.account_file import Permission
from codec.acl.decision import Need
from codec.headers.clients import GetConsumerListByGroupRequestHeader
from codec.headers.pull import QueryMessageRequestHeader
from codec.headers.send import SendMessageRequestHeaderV2
from codec.names import RETRY_PREFIX
from codec.operations.clients import GET_CONSUMER_LIST_BY_GROUP
from codec.operations.messages import QUERY_MESSAGE, SEND_MESSAGE_V2
from rmqcli.client import Admin, BrokerBusy, BrokerRefused, NotPermitted

NO_QUEUE = 2**31 - 1
"""No topic has this queue: a send to it is refused after the check of permissions, and stores nothing."""
NO_TOPIC = "RMQ_NO_SUCH_DEFAULT_TOPIC"
"""Without this default topic no broker creates the topic of the send."""


async def probe(admin: Admin, address: str, need: Need) -> str:
    """Return the refusal of a broker by access control, "" if it allows it; errors of the client otherwise."""
    try:
        await _ask(admin, address, need)
    except BrokerBusy:
        raise  # before the check
    except NotPermitted as error:
        if error.by_account:
            return str(error)
    except BrokerRefused:
        pass  # for another reason, behind the check
    return ""


async def _ask(admin: Admin, address: str, need: Need) -> None:
    ask = admin.instance.ask
    if need.name.startswith(RETRY_PREFIX):
        group = GetConsumerListByGroupRequestHeader(consumer_group=need.name.removeprefix(RETRY_PREFIX))
        await ask(address, GET_CONSUMER_LIST_BY_GROUP, group, None)
    elif need.permission is Permission.SUB:
        query = QueryMessageRequestHeader(
            topic=need.name, key="-", max_num=1, begin_timestamp=0, end_timestamp=1
        )
        await ask(address, QUERY_MESSAGE, query, None)
    else:
        send = SendMessageRequestHeaderV2(
            producer_group="rmq", topic=need.name, default_topic=NO_TOPIC, default_topic_queue_nums=1,
            queue_id=NO_QUEUE, sys_flag=0, born_timestamp=0, flag=0, properties="",
        )  # fmt: skip
        await ask(address, SEND_MESSAGE_V2, send, b"-")
