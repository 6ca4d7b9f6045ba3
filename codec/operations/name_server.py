"""Registration, key-value entries and configuration of a name server."""

from __future__ import annotations

from typing import Final

from codec.bodies.config import DataVersion
from codec.bodies.route import KVTable
from codec.codes import RequestCode as R
from codec.headers.kv import (
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
)
from codec.headers.routes import (
    BrokerHeartbeatRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from codec.operations.operation import PROPERTIES, Operation, optional

# fmt: off
PUT_KV_CONFIG: Final = Operation(R.PUT_KV_CONFIG, "A→N", request=PutKVConfigRequestHeader)
GET_KV_CONFIG: Final = Operation(R.GET_KV_CONFIG, "A→N", request=GetKVConfigRequestHeader, reply=GetKVConfigResponseHeader )
DELETE_KV_CONFIG: Final = Operation(R.DELETE_KV_CONFIG, "A→N", request=DeleteKVConfigRequestHeader)
REGISTER_BROKER: Final = Operation(R.REGISTER_BROKER, "B→N", request=RegisterBrokerRequestHeader, reply=RegisterBrokerResponseHeader, request_body=bytes, reply_body=optional(KVTable))
UNREGISTER_BROKER: Final = Operation(R.UNREGISTER_BROKER, "B→N", request=UnRegisterBrokerRequestHeader)
GET_KVLIST_BY_NAMESPACE: Final = Operation(R.GET_KVLIST_BY_NAMESPACE, "A→N", request=GetKVListByNamespaceRequestHeader, reply_body=KVTable )
UPDATE_NAMESRV_CONFIG: Final = Operation(R.UPDATE_NAMESRV_CONFIG, "A→N", request_body=PROPERTIES)
GET_NAMESRV_CONFIG: Final = Operation(R.GET_NAMESRV_CONFIG, "A→N", reply_body=PROPERTIES)
QUERY_DATA_VERSION: Final = Operation(R.QUERY_DATA_VERSION, "B→N", request=QueryDataVersionRequestHeader, reply=QueryDataVersionResponseHeader, request_body=DataVersion, reply_body=optional(DataVersion))
BROKER_HEARTBEAT: Final = Operation(R.BROKER_HEARTBEAT, "B→N/controller", request=BrokerHeartbeatRequestHeader )
