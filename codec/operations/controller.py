"""The controller of 5.x."""

from __future__ import annotations

from typing import Final

from rmqcli.codec.bodies import controller as bodies
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.headers import controller as headers
from rmqcli.codec.operations.operation import PROPERTIES, Operation, optional

# fmt: off
CONTROLLER_ALTER_SYNC_STATE_SET: Final = Operation(R.CONTROLLER_ALTER_SYNC_STATE_SET, "B→Ctl", request=headers.AlterSyncStateSetRequestHeader, reply=headers.AlterSyncStateSetResponseHeader, request_body=bodies.SyncStateSet, reply_body=bodies.SyncStateSet)
CONTROLLER_ELECT_MASTER: Final = Operation(R.CONTROLLER_ELECT_MASTER, "B/A→Ctl", request=headers.ElectMasterRequestHeader, reply=headers.ElectMasterResponseHeader, reply_body=optional(bodies.ElectMasterResponseBody))
CONTROLLER_REGISTER_BROKER: Final = Operation(R.CONTROLLER_REGISTER_BROKER, "B→Ctl", request=headers.RegisterBrokerToControllerRequestHeader, reply=headers.RegisterBrokerToControllerResponseHeader, reply_body=bodies.SyncStateSet)
CONTROLLER_GET_REPLICA_INFO: Final = Operation(R.CONTROLLER_GET_REPLICA_INFO, "B→Ctl", request=headers.GetReplicaInfoRequestHeader, reply=headers.GetReplicaInfoResponseHeader, reply_body=bodies.SyncStateSet)
CONTROLLER_GET_METADATA_INFO: Final = Operation(R.CONTROLLER_GET_METADATA_INFO, "B/A→Ctl", reply=headers.GetMetaDataResponseHeader)
CONTROLLER_GET_SYNC_STATE_DATA: Final = Operation(R.CONTROLLER_GET_SYNC_STATE_DATA, "A→Ctl", request_body=list[str], reply_body=bodies.BrokerReplicasInfo)
UPDATE_CONTROLLER_CONFIG: Final = Operation(R.UPDATE_CONTROLLER_CONFIG, "A→Ctl", request_body=PROPERTIES)
GET_CONTROLLER_CONFIG: Final = Operation(R.GET_CONTROLLER_CONFIG, "A→Ctl", reply_body=PROPERTIES)
CLEAN_BROKER_DATA: Final = Operation(R.CLEAN_BROKER_DATA, "A→Ctl", request=headers.CleanControllerBrokerDataRequestHeader)
CONTROLLER_GET_NEXT_BROKER_ID: Final = Operation(R.CONTROLLER_GET_NEXT_BROKER_ID, "B→Ctl", request=headers.GetNextBrokerIdRequestHeader, reply=headers.GetNextBrokerIdResponseHeader)
CONTROLLER_APPLY_BROKER_ID: Final = Operation(R.CONTROLLER_APPLY_BROKER_ID, "B→Ctl", request=headers.ApplyBrokerIdRequestHeader, reply=headers.ApplyBrokerIdResponseHeader)
