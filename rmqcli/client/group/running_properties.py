"""The properties that every consumer tells of itself (307, Java `ConsumerRunningInfo.PROP_*`)."""

from __future__ import annotations

from codec.bodies.heartbeat import ConsumeType
from codec.codes import CURRENT_VERSION, version_name
from rmqcli.client.instance import ClientInstance

__all__ = ["NONE_YET", "running_properties"]

NONE_YET = -1
"""The offset of a queue without one."""


def running_properties(
    instance: ClientInstance, group: str, kind: ConsumeType, started_ms: int, *, orderly: bool = False
) -> dict[str, str]:
    return {
        "PROP_NAMESERVER_ADDR": ";".join(instance.name_servers.addresses),
        "PROP_CONSUME_TYPE": kind,
        "PROP_CLIENT_VERSION": version_name(CURRENT_VERSION),
        "PROP_CONSUMEORDERLY": str(orderly).lower(),
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "consumerGroup": group,
    }
