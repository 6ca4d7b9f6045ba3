"""`Admin`: administration of a cluster, composed of areas (Java `DefaultMQAdminExt`)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

from rmqcli.client.errors import InvalidRequest
from rmqcli.client.instance import Client, ClientInstance, InstanceOptions
from rmqcli.codec.headers.base import Header
from rmqcli.codec.remoting.command import RemotingCommand

if TYPE_CHECKING:
    from rmqcli.client.admin.access import AccessAdmin
    from rmqcli.client.admin.brokers import BrokerAdmin
    from rmqcli.client.admin.clients import ClientAdmin
    from rmqcli.client.admin.controllers import ControllerAdmin, ReplicationAdmin
    from rmqcli.client.admin.groups import GroupAdmin
    from rmqcli.client.admin.messages import MessageAdmin
    from rmqcli.client.admin.name_servers import NameServerAdmin
    from rmqcli.client.admin.offsets import OffsetAdmin
    from rmqcli.client.admin.topics import StaticTopicAdmin, TopicAdmin
    from rmqcli.client.admin.upkeep import UpkeepAdmin

_AREAS = {
    "topics": ("rmqcli.client.admin.topics", "TopicAdmin"),
    "groups": ("rmqcli.client.admin.groups", "GroupAdmin"),
    "offsets": ("rmqcli.client.admin.offsets", "OffsetAdmin"),
    "clients": ("rmqcli.client.admin.clients", "ClientAdmin"),
    "brokers": ("rmqcli.client.admin.brokers", "BrokerAdmin"),
    "messages": ("rmqcli.client.admin.messages", "MessageAdmin"),
    "name_servers": ("rmqcli.client.admin.name_servers", "NameServerAdmin"),
    "access": ("rmqcli.client.admin.access", "AccessAdmin"),
    "replication": ("rmqcli.client.admin.controllers", "ReplicationAdmin"),
    "controllers": ("rmqcli.client.admin.controllers", "ControllerAdmin"),
    "upkeep": ("rmqcli.client.admin.upkeep", "UpkeepAdmin"),
    "static_topics": ("rmqcli.client.admin.topics", "StaticTopicAdmin"),
}
"""The module and the class of each area."""
ADMIN_TIMEOUT = 5.0  # seconds; DefaultMQAdminExt.timeoutMillis


class Admin(Client):
    """Administration calls by area.

    The areas are `topics`, `groups`, `offsets`, `clients`, `brokers`, `messages`, `name_servers`, `access`,
    `replication`, `controllers`, `upkeep` and `static_topics`; each is imported on first use. `timeout` is in
    seconds for one request; see InstanceOptions for the other options. An Admin has no namespace: it takes
    full names of topics and groups. A call to several brokers sends its requests concurrently.

    ```python
    async with Admin() as admin:
        await admin.topics.create("parcels", read_queues=2, write_queues=2)
        assert "parcels" in await admin.topics.names()
    ```
    """

    topics: TopicAdmin
    """Topics: names, routes, settings, statistics; create, update, delete."""
    groups: GroupAdmin
    """Consumer groups: names, summaries, settings; create, update, delete."""
    offsets: OffsetAdmin
    """Offsets of queues and of groups; resets."""
    clients: ClientAdmin
    """Connected producers and consumers."""
    brokers: BrokerAdmin
    """Brokers and clusters."""
    messages: MessageAdmin
    """Messages by key or id."""
    name_servers: NameServerAdmin
    """Name servers: configuration, key-value entries, write permission of brokers."""
    access: AccessAdmin
    """Accounts of 4.x; users and policies of 5.x."""
    replication: ReplicationAdmin
    """Masters and slaves of 5.x: their state, epochs, flush offsets."""
    controllers: ControllerAdmin
    """Controllers of 5.x: state, configuration, elections."""
    upkeep: UpkeepAdmin
    """Stores of 5.x: cold data, read-ahead, RocksDB; containers of brokers."""
    static_topics: StaticTopicAdmin
    """Static topics of 5.x: the mappings of their queues."""

    def __init__(self, *, instance: ClientInstance | None = None, **options: Unpack[InstanceOptions]) -> None:
        options.setdefault("timeout", ADMIN_TIMEOUT)
        options.setdefault("namespace", "")  # not the one that the name server's address may contain
        super().__init__(instance, options)
        if self.instance.namespace:
            raise InvalidRequest("an Admin takes whole names of topics and groups, not a namespace")

    async def invoke(
        self,
        address: str,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,
    ) -> RemotingCommand:
        """Send any request to any address and return the reply, whatever its code."""
        return await self.instance.call(address, code, header, body, timeout=timeout, ok=None)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _AREAS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            module, area_type = _AREAS[name]
            area = getattr(import_module(module), area_type)(self)
            setattr(self, name, area)
            return area
