"""Registration, key-value entries and configuration of a name server."""

from __future__ import annotations

from typing import Final

from rmqcli.codec.bodies import config, route
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.headers import routes as headers
from rmqcli.codec.operations.operation import PROPERTIES, Operation, optional

# fmt: off
PUT_KV_CONFIG: Final = Operation(R.PUT_KV_CONFIG, "A→N", request=headers.PutKVConfigRequestHeader)
GET_KV_CONFIG: Final = Operation(R.GET_KV_CONFIG, "A→N", request=headers.GetKVConfigRequestHeader, reply=headers.GetKVConfigResponseHeader)
DELETE_KV_CONFIG: Final = Operation(R.DELETE_KV_CONFIG, "A→N", request=headers.DeleteKVConfigRequestHeader)
REGISTER_BROKER: Final = Operation(R.REGISTER_BROKER, "B→N", request=headers.RegisterBrokerRequestHeader, reply=headers.RegisterBrokerResponseHeader, request_body=bytes, reply_body=optional(route.KVTable))
UNREGISTER_BROKER: Final = Operation(R.UNREGISTER_BROKER, "B→N", request=headers.UnRegisterBrokerRequestHeader)
GET_KVLIST_BY_NAMESPACE: Final = Operation(R.GET_KVLIST_BY_NAMESPACE, "A→N", request=headers.GetKVListByNamespaceRequestHeader, reply_body=route.KVTable)
UPDATE_NAMESRV_CONFIG: Final = Operation(R.UPDATE_NAMESRV_CONFIG, "A→N", request_body=PROPERTIES)
GET_NAMESRV_CONFIG: Final = Operation(R.GET_NAMESRV_CONFIG, "A→N", reply_body=PROPERTIES)
QUERY_DATA_VERSION: Final = Operation(R.QUERY_DATA_VERSION, "B→N", request=headers.QueryDataVersionRequestHeader, reply=headers.QueryDataVersionResponseHeader, request_body=config.DataVersion, reply_body=optional(config.DataVersion))
BROKER_HEARTBEAT: Final = Operation(R.BROKER_HEARTBEAT, "B→N/controller", request=headers.BrokerHeartbeatRequestHeader)
