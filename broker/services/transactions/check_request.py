"""CHECK_TRANSACTION_STATE (39): requests the state of a transaction from a producer (Java
`AbstractTransactionalMessageCheckListener`).

The request is one-way, to one connection of the producer group, which answers with an END_TRANSACTION. The
body is the half message as it would be in its real queue, with the offsets of its newest copy.
"""

from __future__ import annotations

import logging
from functools import partial

from broker.context import BrokerContext
from broker.net.handling import command_of
from broker.services.messages import real_place
from broker.store.values import AppendResult
from codec.errors import LocalProtocolError
from codec.headers.transactions import CheckTransactionStateRequestHeader
from codec.ids import pack_host_text
from codec.message import MessageExt
from codec.operations.messages import CHECK_TRANSACTION_STATE
from codec.properties import PropertyName, encode_properties
from codec.store.record_encoder import encode_record

_log = logging.getLogger(__name__)


def request_check(
    broker: BrokerContext, half: MessageExt, properties: dict[str, str], copy: AppendResult
) -> None:
    """Send the request, if a producer is connected. `copy` is the newest copy of the half message."""
    group = properties.get(PropertyName.PGROUP, "")
    access, place = broker.access, real_place(properties)
    may_send = None if access is None or place is None else partial(access.may_send, topic=place[0])
    producer = broker.producers.available(group, may_send)
    if producer is None:
        _log.info("no producer of group %s is connected that may end a transaction", group)
        return
    try:
        record = _record(half, properties, copy)
    except LocalProtocolError as error:
        _log.error("the half message at %d cannot be sent to its producer: %s", copy.physical_offset, error)
        return
    key = properties.get(PropertyName.UNIQ_KEY)
    header = CheckTransactionStateRequestHeader(
        tran_state_table_offset=copy.queue_offset,
        commit_log_offset=copy.physical_offset,
        msg_id=key,
        transaction_id=key,
        offset_msg_id=broker.offset_msg_id(copy.physical_offset),
    )
    producer.channel.oneway(command_of(CHECK_TRANSACTION_STATE, header, record))


def _record(half: MessageExt, properties: dict[str, str], copy: AppendResult) -> bytes:
    place = real_place(properties)
    if place is None:
        raise LocalProtocolError("it names no topic")
    topic, queue_id = place
    return encode_record(
        topic=topic.encode(),
        queue_id=queue_id,
        flag=half.flag,
        queue_offset=copy.queue_offset,
        physical_offset=copy.physical_offset,
        sys_flag=half.sys_flag,
        born_timestamp=half.born_timestamp,
        born_host=pack_host_text(half.born_host),
        store_timestamp=half.store_timestamp,
        store_host=pack_host_text(half.store_host),
        reconsume_times=half.reconsume_times,
        prepared_transaction_offset=half.prepared_transaction_offset,
        body=half.body,
        properties=encode_properties(properties),
    )
