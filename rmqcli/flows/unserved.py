"""Says what a server lacks when it does not serve a request."""

from __future__ import annotations

from rmqcli.client import Admin, BrokerRefused, ClientError

UNKNOWN = "request type"
"""Every server begins so what it says of a code that it does not know; other remarks are reasons."""
_VERSION = "brokerVersionDesc"


async def unserved(admin: Admin, error: BrokerRefused, feature: str) -> str:
    """Return one line with the server, its version where it has one, and its reason or the feature that it lacks."""
    server = await _server(admin, error.address)
    if error.remark and not error.remark.lstrip().startswith(UNKNOWN):
        return f"{server}: {error.remark}"
    return f"{server} has no {feature}: it does not serve {error.request}"


async def _server(admin: Admin, address: str) -> str:
    """Return `broker-a (V4_9_8)`, or the address of a server that is no broker."""
    try:
        table = (await admin.brokers.cluster_info()).broker_addr_table
        name = next((name for name, data in table.items() if address in data.broker_addrs.values()), None)
        if name is None:
            return address
        return f"{name} ({(await admin.brokers.runtime_info(address)).get(_VERSION, 'unknown version')})"
    except ClientError:
        return address
