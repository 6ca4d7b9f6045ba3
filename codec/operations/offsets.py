"""Offsets of groups and queues, and their reset."""

from __future__ import annotations

from typing import Final

from rmqcli.codec.bodies import offsets as bodies
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.fastjson_writer import FASTJSON
from rmqcli.codec.headers import offsets as headers
from rmqcli.codec.operations.access import GET, PUB, SUB, UPDATE, on_cluster, on_group, on_topic
from rmqcli.codec.operations.operation import NOT_SET, Operation

# fmt: off
QUERY_CONSUMER_OFFSET: Final = Operation(R.QUERY_CONSUMER_OFFSET, "C→B", request=headers.QueryConsumerOffsetRequestHeader, reply=headers.QueryConsumerOffsetResponseHeader, access=(on_topic(SUB, GET), on_group(SUB, GET)))
UPDATE_CONSUMER_OFFSET: Final = Operation(R.UPDATE_CONSUMER_OFFSET, "C→B", request=headers.UpdateConsumerOffsetRequestHeader, reply=headers.UpdateConsumerOffsetResponseHeader, access=(on_topic(SUB, UPDATE), on_group(SUB, UPDATE)))
SEARCH_OFFSET_BY_TIMESTAMP: Final = Operation(R.SEARCH_OFFSET_BY_TIMESTAMP, "C/A→B", request=headers.SearchOffsetRequestHeader, reply=headers.SearchOffsetResponseHeader, access=(on_topic(PUB, SUB, GET),))
GET_MAX_OFFSET: Final = Operation(R.GET_MAX_OFFSET, "C/A→B", request=headers.GetMaxOffsetRequestHeader, reply=headers.GetMaxOffsetResponseHeader, access=(on_topic(PUB, SUB, GET),))
GET_MIN_OFFSET: Final = Operation(R.GET_MIN_OFFSET, "C/A→B", request=headers.GetMinOffsetRequestHeader, reply=headers.GetMinOffsetResponseHeader, access=(on_topic(PUB, SUB, GET),))
GET_EARLIEST_MSG_STORETIME: Final = Operation(R.GET_EARLIEST_MSG_STORETIME, "C/A→B", request=headers.GetEarliestMsgStoretimeRequestHeader, reply=headers.GetEarliestMsgStoretimeResponseHeader, access=(on_topic(PUB, SUB, GET),))
GET_ALL_CONSUMER_OFFSET: Final = Operation(R.GET_ALL_CONSUMER_OFFSET, "slave→B", reply_body=bodies.ConsumerOffsetSerializeWrapper, reply_dialect=FASTJSON, access=(on_cluster(GET),))
GET_ALL_DELAY_OFFSET: Final = Operation(R.GET_ALL_DELAY_OFFSET, "slave→B", reply_body=bodies.DelayOffsetSerializeWrapper, reply_dialect=FASTJSON, access=(on_cluster(GET),))
RESET_CONSUMER_CLIENT_OFFSET: Final = Operation(R.RESET_CONSUMER_CLIENT_OFFSET, "B→C", request=headers.ResetOffsetRequestHeader, request_body=bodies.ResetOffsetBody, request_dialect=FASTJSON, answered=False)
GET_CONSUMER_STATUS_FROM_CLIENT: Final = Operation(R.GET_CONSUMER_STATUS_FROM_CLIENT, "B→C", request=headers.GetConsumerStatusRequestHeader, reply_body=bodies.GetConsumerStatusBody)
INVOKE_BROKER_TO_RESET_OFFSET: Final = Operation(R.INVOKE_BROKER_TO_RESET_OFFSET, "A→B", request=headers.ResetOffsetRequestHeader, reply_body=bodies.ResetOffsetBody, reply_dialect=FASTJSON, remark=NOT_SET, access=(on_topic(SUB, UPDATE), on_group(SUB, UPDATE, named_by="group")))
INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Final = Operation(R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, "A→B", request=headers.GetConsumerStatusRequestHeader, reply_body=bodies.GetConsumerStatusBody, reply_dialect=FASTJSON, remark=NOT_SET, access=(on_topic(SUB, GET), on_group(SUB, GET, named_by="group")))
QUERY_CORRECTION_OFFSET: Final = Operation(R.QUERY_CORRECTION_OFFSET, "A→B", request=headers.QueryCorrectionOffsetHeader, reply_body=bodies.QueryCorrectionOffsetBody, reply_dialect=FASTJSON, access=(on_topic(PUB, SUB, GET), on_group(SUB, GET, named_by="compare_group")))
CLONE_GROUP_OFFSET: Final = Operation(R.CLONE_GROUP_OFFSET, "A→B", request=headers.CloneGroupOffsetRequestHeader, access=(on_group(SUB, GET, named_by="src_group"), on_group(SUB, UPDATE, named_by="dest_group"), on_topic(SUB, UPDATE)))
