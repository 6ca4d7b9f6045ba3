"""The clients that are connected, by group (Java classes `ConsumerManager`, `ConsumerGroupInfo`,
`ProducerManager`, `ClientChannelInfo`). A group without a connection does not exist.

Every heartbeat overwrites a consumer group's consume type, message model and where to start. A subscription
is replaced only by one with a greater version; a topic that the heartbeat does not name is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from codec.bodies.heartbeat import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData
from codec.remoting.frame import RemotingCommand

MOST_GROUPS = 4096
"""Consumer groups, and as many producer groups, that one connection can be in."""


LONGEST_SUBSCRIPTIONS = 8 * 1024 * 1024
"""Characters of all groups and subscriptions of one connection: names, expressions, tags and `EACH_TAG`."""
EACH_TAG = 32


class Channel(Protocol):
    """A connection as the tables see it. It is hashed by identity."""

    @property
    def peer_text(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def oneway(self, command: RemotingCommand) -> None: ...
    async def request(self, command: RemotingCommand, timeout_s: float) -> RemotingCommand: ...
    def close(self) -> None: ...


@dataclass(slots=True)
class ClientChannel:
    """`language` and `version` are the codes of the request header, `last_update` is in ms."""

    channel: Channel
    client_id: str
    language: int
    version: int
    last_update: int


@dataclass(slots=True)
class ConsumerGroup:
    """One group that is online."""

    name: str
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    channels: dict[Channel, ClientChannel] = field(default_factory=dict)

    def client_ids(self) -> list[str]:
        return [client.client_id for client in self.channels.values()]

    def find(self, client_id: str) -> ClientChannel | None:
        for client in self.channels.values():
            if client.client_id == client_id:
                return client
        return None

    def is_broadcasting(self) -> bool:
        return self.message_model is MessageModel.BROADCASTING

    def update_channel(self, client: ClientChannel) -> bool:
        """True when the group did not have this client on this connection."""
        known = self.channels.get(client.channel)
        self.channels[client.channel] = client
        return known is None or known.client_id != client.client_id

    def update_subscriptions(self, offered: Iterable[SubscriptionData]) -> bool:
        """True when a topic was added or removed. A newer version of a known one is silent, as in Java."""
        named = {subscription.topic: subscription for subscription in offered}
        changed = False
        for topic, subscription in named.items():
            known = self.subscriptions.get(topic)
            changed |= known is None
            if known is None or subscription.sub_version > known.sub_version:
                self.subscriptions[topic] = subscription
        for topic in [topic for topic in self.subscriptions if topic not in named]:
            del self.subscriptions[topic]
            changed = True
        return changed


class TooManyGroups(Exception):
    """A connection is in as many groups as it may be, or its subscriptions are too long; see the text."""


class _Names:
    """Connection → the names of its groups, in order, so that its end need not look at all groups, and the
    characters that are kept for each."""

    def __init__(self) -> None:
        self._of: dict[Channel, dict[str, int]] = {}
        self._sizes: dict[Channel, int] = {}

    def of(self, channel: Channel) -> Collection[str]:
        return self._of.get(channel, ())

    def add(self, channel: Channel, group: str, size: int) -> None:
        """Raises TooManyGroups."""
        names = self._of.get(channel, {})
        if len(names) >= MOST_GROUPS and group not in names:
            raise TooManyGroups(f"a connection can be in {MOST_GROUPS} groups at most")
        total = self._sizes.get(channel, 0) - names.get(group, 0) + size
        if total > LONGEST_SUBSCRIPTIONS:
            raise TooManyGroups(
                "the groups and subscriptions of a connection can have "
                f"{LONGEST_SUBSCRIPTIONS} characters at most"
            )
        self._of.setdefault(channel, names)[group] = size
        self._sizes[channel] = total

    def remove(self, channel: Channel, group: str) -> None:
        names = self._of[channel]
        self._sizes[channel] -= names.pop(group)
        if not names:
            del self._of[channel], self._sizes[channel]


class ConsumerTable:
    """Group name → the group that is online."""

    def __init__(self) -> None:
        self._groups: dict[str, ConsumerGroup] = {}
        self._names = _Names()
        self.get = self._groups.get

    def register(self, data: ConsumerData, client: ClientChannel) -> bool:
        """Takes in one group of a heartbeat; True when the other members must hear of it."""
        size = len(data.group_name) + len(client.client_id) + sum(map(_size, data.subscription_data_set))
        self._names.add(client.channel, data.group_name, size)
        group = self._groups.setdefault(data.group_name, ConsumerGroup(data.group_name))
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        came = group.update_channel(client)
        changed = group.update_subscriptions(data.subscription_data_set)
        return came or changed

    def unregister(self, group: str, channel: Channel) -> bool:
        """True when the connection was in the group."""
        known = self._groups.get(group)
        if known is None or known.channels.pop(channel, None) is None:
            return False
        self._names.remove(channel, group)
        if not known.channels:
            del self._groups[group]
        return True

    def close(self, channel: Channel) -> list[str]:
        """The connection is gone from every group; the names of those groups."""
        names = list(self._names.of(channel))
        for name in names:
            self.unregister(name, channel)
        return names

    def expire(self, before: int) -> list[tuple[str, Channel]]:
        """Forgets the clients whose last heartbeat is older than `before` (ms)."""
        old = [
            (name, channel)
            for name, group in self._groups.items()
            for channel, client in group.channels.items()
            if client.last_update < before
        ]
        for name, channel in old:
            self.unregister(name, channel)
        return old

    def groups(self) -> list[ConsumerGroup]:
        return list(self._groups.values())

    def subscribers(self, topic: str) -> list[str]:
        """The groups that are online and subscribe to a topic."""
        return [name for name, group in self._groups.items() if topic in group.subscriptions]


class ProducerTable:
    """Group → connection → client."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Channel, ClientChannel]] = {}
        self._names = _Names()
        self._by_id: dict[str, ClientChannel] = {}
        self._turns = 0

    def register(self, group: str, client: ClientChannel) -> None:
        self._names.add(client.channel, group, len(group) + len(client.client_id))
        channels = self._groups.setdefault(group, {})
        before = channels.get(client.channel)
        channels[client.channel] = self._by_id[client.client_id] = client
        if before is not None and before.client_id != client.client_id:
            self._left(before)

    def unregister(self, group: str, channel: Channel) -> None:
        channels = self._groups.get(group, {})
        client = channels.pop(channel, None)
        if not channels:
            self._groups.pop(group, None)
        if client is not None:
            self._names.remove(channel, group)
            self._left(client)

    def close(self, channel: Channel) -> None:
        """The connection is gone from every group."""
        for group in list(self._names.of(channel)):
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

    def _left(self, client: ClientChannel) -> None:
        """Forgets the id of a client that left a group, unless another group or connection has it."""
        newest = self._by_id.get(client.client_id)
        if newest is None or newest.channel is not client.channel:
            return
        others = (self._groups[group][client.channel] for group in self._names.of(client.channel))
        if all(other.client_id != client.client_id for other in others):
            del self._by_id[client.client_id]


def _size(subscription: SubscriptionData) -> int:
    tags = subscription.tags_set
    names = len(subscription.topic) + len(subscription.sub_string) + sum(map(len, tags))
    return names + EACH_TAG * (len(tags) + len(subscription.code_set))
