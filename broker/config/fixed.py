"""Properties of 5.x that have one value here: a feature that these servers do not have, or always have. They
are told like the others, since tools of 5.x look at them, and a change is refused.

Properties of 5.x that tune what is not there (thread pools, POP buffers, timers, compaction, RocksDB) are
neither known nor told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codec.names import MAX_TOPIC_LENGTH

FIXED_OF_BROKERS: Final[Mapping[str, str]] = {
    # what this broker does not have
    "coldDataFlowControlEnable": "false",
    "coldDataScanEnable": "false",
    "defaultMessageRequestMode": "PULL",
    "enableCompaction": "false",
    "enableControllerMode": "false",
    "enableRemoteEscape": "false",
    "enableRetryTopicV2": "false",
    "enableSlaveActingMaster": "false",
    "enabledAppendPropCRC": "false",
    "isInBrokerContainer": "false",
    "metricsExporterType": "DISABLE",
    "recallMessageEnable": "false",
    "rocksdbCQDoubleWriteEnable": "false",
    "storeType": "default",
    "timerWheelEnable": "false",
    "useStaticSubscription": "false",
    # what it always does
    "enableCreateSysGroup": "true",
    "litePullMessageEnable": "true",
    "maxTopicLength": str(MAX_TOPIC_LENGTH),
    "rejectPullConsumerEnable": "false",
    "serverLoadBalancerEnable": "true",
    "validateSystemTopicWhenUpdateTopic": "true",
}
FIXED_OF_NAME_SERVERS: Final[Mapping[str, str]] = {
    "deleteTopicWithBrokerRegistration": "false",
    "enableAllTopicList": "true",
    "enableControllerInNamesrv": "false",
    "enableTopicList": "true",
    "needWaitForService": "false",
    "notifyMinBrokerIdChanged": "false",
    "returnOrderTopicConfigToBroker": "true",
    "supportActingMaster": "false",
}
FIXED: Final[Mapping[str, str]] = {**FIXED_OF_BROKERS, **FIXED_OF_NAME_SERVERS}
