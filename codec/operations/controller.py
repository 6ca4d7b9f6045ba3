"""The controller of 5.x."""

from __future__ import annotations

from typing import Final

from codec.bodies.controller import BrokerReplicasInfo, ElectMasterResponseBody, SyncStateSet
from codec.codes import RequestCode as R
from codec.headers.controller import (
    AlterSyncStateSetRequestHeader,
    AlterSyncStateSetResponseHeader,
    ApplyBrokerIdRequestHeader,
    ApplyBrokerIdResponseHeader,
    CleanControllerBrokerDataRequestHeader,
    ElectMasterRequestHeader,
    ElectMasterResponseHeader,
    GetMetaDataResponseHeader,
    GetNextBrokerIdRequestHeader,
    GetNextBrokerIdResponseHeader,
    GetReplicaInfoRequestHeader,
    GetReplicaInfoResponseHeader,
    RegisterBrokerToControllerRequestHeader,
    RegisterBrokerToControllerResponseHeader,
)
from codec.operations.operation import PROPERTIES, Operation

# fmt: off
CONTROLLER_ALTER_SYNC_STATE_SET: Final = Operation(R.CONTROLLER_ALTER_SYNC_STATE_SET, "B→Ctl", request=AlterSyncStateSetRequestHeader, reply=AlterSyncStateSetResponseHeader, request_body=SyncStateSet, reply_body=SyncStateSet)
CONTROLLER_ELECT_MASTER: Final = Operation(R.CONTROLLER_ELECT_MASTER, "B/A→Ctl", request=ElectMasterRequestHeader, reply=ElectMasterResponseHeader, reply_body=ElectMasterResponseBody)
CONTROLLER_REGISTER_BROKER: Final = Operation(R.CONTROLLER_REGISTER_BROKER, "B→Ctl", request=RegisterBrokerToControllerRequestHeader, reply=RegisterBrokerToControllerResponseHeader, reply_body=SyncStateSet)
CONTROLLER_GET_REPLICA_INFO: Final = Operation(R.CONTROLLER_GET_REPLICA_INFO, "B→Ctl", request=GetReplicaInfoRequestHeader, reply=GetReplicaInfoResponseHeader, reply_body=SyncStateSet)
CONTROLLER_GET_METADATA_INFO: Final = Operation(R.CONTROLLER_GET_METADATA_INFO, "B/A→Ctl", reply=GetMetaDataResponseHeader )
CONTROLLER_GET_SYNC_STATE_DATA: Final = Operation(R.CONTROLLER_GET_SYNC_STATE_DATA, "A→Ctl", request_body=list[str], reply_body=BrokerReplicasInfo )
UPDATE_CONTROLLER_CONFIG: Final = Operation(R.UPDATE_CONTROLLER_CONFIG, "A→Ctl", request_body=PROPERTIES)
GET_CONTROLLER_CONFIG: Final = Operation(R.GET_CONTROLLER_CONFIG, "A→Ctl", reply_body=PROPERTIES)
CLEAN_BROKER_DATA: Final = Operation(R.CLEAN_BROKER_DATA, "A→Ctl", request=CleanControllerBrokerDataRequestHeader )
CONTROLLER_GET_NEXT_BROKER_ID: Final = Operation(R.CONTROLLER_GET_NEXT_BROKER_ID, "B→Ctl", request=GetNextBrokerIdRequestHeader, reply=GetNextBrokerIdResponseHeader)
CONTROLLER_APPLY_BROKER_ID: Final = Operation(R.CONTROLLER_APPLY_BROKER_ID, "B→Ctl", request=ApplyBrokerIdRequestHeader, reply=ApplyBrokerIdResponseHeader)
