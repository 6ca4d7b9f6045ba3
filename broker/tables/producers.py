"""The producers that are connected, by group (Java class `ProducerManager`)."""

from __future__ import annotations

from collections.abc import Mapping

from broker.tables.channels import Channel, ClientChannel

__all__ = ["ProducerTable"]


class ProducerTable:
    """Group → connection → client. A group without a connection does not exist."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Channel, ClientChannel]] = {}

    def register(self, group: str, client: ClientChannel) -> None:
        self._groups.setdefault(group, {})[client.channel] = client

    def unregister(self, group: str, channel: Channel) -> None:
        channels = self._groups.get(group, {})
        channels.pop(channel, None)
        if not channels:
            self._groups.pop(group, None)

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

    def groups(self) -> Mapping[str, list[ClientChannel]]:
        return {group: list(channels.values()) for group, channels in self._groups.items()}
