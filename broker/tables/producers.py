"""The producers that are connected, by group (Java class `ProducerManager`)."""

from __future__ import annotations

from collections.abc import Mapping

from broker.tables.channels import Channel, ClientChannel


class ProducerTable:
    """Group → connection → client. A group without a connection does not exist."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Channel, ClientChannel]] = {}
        self._by_id: dict[str, ClientChannel] = {}
        self._turns = 0

    def register(self, group: str, client: ClientChannel) -> None:
        self._groups.setdefault(group, {})[client.channel] = client
        self._by_id[client.client_id] = client

    def unregister(self, group: str, channel: Channel) -> None:
        channels = self._groups.get(group, {})
        client = channels.pop(channel, None)
        if not channels:
            self._groups.pop(group, None)
        if client is not None and not any(channel in others for others in self._groups.values()):
            self._forget(client)

    def close(self, channel: Channel) -> None:
        """The connection is gone from every group."""
        for group in [group for group, channels in self._groups.items() if channel in channels]:
            self.unregister(group, channel)

    def expire(self, before: int) -> list[Channel]:
        """Forgets the clients whose last heartbeat is older than `before` (ms); their connections."""
        old = [
            (group, channel)
            for group, channels in self._groups.items()
            for channel, client in channels.items()
            if client.last_update < before
        ]
        for group, channel in old:
            self.unregister(group, channel)
        return list({channel: None for _, channel in old})

    def clients(self, group: str) -> list[ClientChannel] | None:
        """The clients of a group, None when it has none."""
        channels = self._groups.get(group)
        return list(channels.values()) if channels else None

    def available(self, group: str) -> ClientChannel | None:
        """One connected client of a group, a different one each time; None when there is none."""
        clients = self._groups.get(group, {}).values()
        connected = [client for client in clients if not client.channel.closed]
        if not connected:
            return None
        self._turns += 1
        return connected[self._turns % len(connected)]

    def find(self, client_id: str) -> ClientChannel | None:
        """The newest connection of a client, whatever its groups."""
        return self._by_id.get(client_id)

    def groups(self) -> Mapping[str, list[ClientChannel]]:
        return {group: list(channels.values()) for group, channels in self._groups.items()}

    def _forget(self, client: ClientChannel) -> None:
        newest = self._by_id.get(client.client_id)
        if newest is not None and newest.channel is client.channel:
            del self._by_id[client.client_id]
