"""The connected clients, by group (Java classes `ConsumerManager`, `ConsumerGroupInfo`, `ProducerManager`,
`ClientChannelInfo`). A group without a connection does not exist.

Every heartbeat overwrites the consume type, message model and starting point of a consumer group. A
subscription is replaced only by one with a greater version; a topic that is not in the heartbeat is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rmqcli.codec.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from rmqcli.codec.remoting.command import RemotingCommand

MOST_GROUPS = 4096
"""Maximum number of consumer groups, and also of producer groups, that one connection can be in."""
LONGEST_SUBSCRIPTIONS = 8 * 1024 * 1024
"""Maximum number of characters of all groups and subscriptions of one connection: names, expressions, tags,
and `EACH_TAG` per tag."""
EACH_TAG = 32
SUBSCRIPTIONS_PER_STEP = 64


class Channel(Protocol):
    """A connection from the point of view of the tables, hashed by identity."""

    @property
    def peer_text(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def oneway(self, command: RemotingCommand) -> None: ...
    async def request(self, command: RemotingCommand, timeout_s: float) -> RemotingCommand: ...
    def close(self) -> None: ...


@dataclass(slots=True)
class ClientChannel:
    """A client on a connection. `language` and `version` are the codes of the request header, `last_update`
    is in ms, `access_key` is that of its account."""

    channel: Channel
    client_id: str
    language: int
    version: int
    last_update: int
    access_key: str | None = None


@dataclass(slots=True)
class ConsumerGroup:
    """A consumer group that is online."""

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
        """Add or refresh a client. Return True if the group did not have this client on this connection."""
        known = self.channels.get(client.channel)
        self.channels[client.channel] = client
        return known is None or known.client_id != client.client_id

    def update_subscriptions(self, offered: Iterable[SubscriptionData]) -> Generator[None, None, bool]:
        """Apply subscriptions, in steps. Return True if a topic was added or removed; a newer version of a
        known subscription does not count, as in Java."""
        named: dict[str, SubscriptionData] = {}
        for count, subscription in enumerate(offered, 1):
            named[subscription.topic] = subscription
            if not count % SUBSCRIPTIONS_PER_STEP:
                yield
        changed = False
        for count, (topic, subscription) in enumerate(named.items(), 1):
            known = self.subscriptions.get(topic)
            changed |= known is None
            if known is None or subscription.sub_version > known.sub_version:
                self.subscriptions[topic] = subscription
            if not count % SUBSCRIPTIONS_PER_STEP:
                yield
        for topic in [topic for topic in self.subscriptions if topic not in named]:
            del self.subscriptions[topic]
            changed = True
        return changed


class TooManyGroups(Exception):
    """A connection is in too many groups, or its subscriptions are too long; the message says which."""


class _Names:
    """Connection → the names of its groups, in order, with the number of characters stored for each. When a
    connection ends, only its groups have to be examined."""

    def __init__(self) -> None:
        self._of: dict[Channel, dict[str, int]] = {}
        self._sizes: dict[Channel, int] = {}

    def of(self, channel: Channel) -> Collection[str]:
        return self._of.get(channel, ())

    def add(self, channel: Channel, group: str, size: int) -> None:
        """Add a group, or change its size. Raises TooManyGroups."""
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
    """Group name → online group."""

    def __init__(self) -> None:
        self._groups: dict[str, ConsumerGroup] = {}
        self._names = _Names()
        # Bound once for the hot paths: `_groups` is never replaced.
        self.get = self._groups.get

    def register(self, data: ConsumerData, client: ClientChannel) -> bool:
        """Register one group of a heartbeat. Return True if the other members must be notified."""
        steps = self.registering(data, client)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bool(end.value)

    def registering(self, data: ConsumerData, client: ClientChannel) -> Generator[None, None, bool]:
        """Like `register`, in steps. Raises TooManyGroups."""
        size = len(data.group_name) + len(client.client_id)
        for count, subscription in enumerate(data.subscription_data_set, 1):
            size += _size(subscription)
            if not count % SUBSCRIPTIONS_PER_STEP:
                yield
        self._names.add(client.channel, data.group_name, size)
        group = self._groups.setdefault(data.group_name, ConsumerGroup(data.group_name))
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        came = group.update_channel(client)
        changed = yield from group.update_subscriptions(data.subscription_data_set)
        return came or changed

    def unregister(self, group: str, channel: Channel) -> bool:
        """Remove a connection from a group. Return True if it was in the group."""
        known = self._groups.get(group)
        if known is None or known.channels.pop(channel, None) is None:
            return False
        self._names.remove(channel, group)
        if not known.channels:
            del self._groups[group]
        return True

    def groups_of(self, channel: Channel) -> list[str]:
        """Return the names of the groups that a connection is in."""
        return list(self._names.of(channel))

    def expire(self, before: int) -> Generator[None, None, list[tuple[str, Channel]]]:
        """Remove the clients whose last heartbeat is older than `before` (ms), in steps. Return their groups
        and connections."""
        groups = [(name, group.channels) for name, group in self._groups.items()]
        return _expire(before, groups, self.unregister)

    def groups(self) -> list[ConsumerGroup]:
        return list(self._groups.values())

    def subscribers(self, topic: str) -> list[str]:
        """Return the groups that are online and subscribe to a topic."""
        return [name for name, group in self._groups.items() if topic in group.subscriptions]


class ProducerTable:
    """Group → connection → client."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Channel, ClientChannel]] = {}
        self._names = _Names()
        self._by_id: dict[str, ClientChannel] = {}
        self._uses: dict[tuple[Channel, str], int] = {}  # the groups in which a connection has an id
        self._turns = 0

    def register(self, group: str, client: ClientChannel) -> None:
        self._names.add(client.channel, group, len(group) + len(client.client_id))
        channels = self._groups.setdefault(group, {})
        before = channels.get(client.channel)
        channels[client.channel] = client
        # Replies are pushed by client id: another account must not take over the id of a connected client.
        holder = self._by_id.get(client.client_id)
        if holder is None or holder.channel.closed or holder.access_key == client.access_key:
            self._by_id[client.client_id] = client
        if before is None or before.client_id != client.client_id:
            use = client.channel, client.client_id
            self._uses[use] = self._uses.get(use, 0) + 1
            if before is not None:
                self._left(before)

    def unregister(self, group: str, channel: Channel) -> None:
        channels = self._groups.get(group, {})
        client = channels.pop(channel, None)
        if not channels:
            self._groups.pop(group, None)
        if client is not None:
            self._names.remove(channel, group)
            self._left(client)

    def groups_of(self, channel: Channel) -> list[str]:
        """Return the names of the groups that a connection is in."""
        return list(self._names.of(channel))

    def expire(self, before: int) -> Generator[None, None, list[tuple[str, Channel]]]:
        """Like `ConsumerTable.expire`."""
        return _expire(before, list(self._groups.items()), self.unregister)

    def clients(self, group: str) -> list[ClientChannel] | None:
        """Return the clients of a group; None if it has none."""
        channels = self._groups.get(group)
        return list(channels.values()) if channels else None

    def available(
        self, group: str, admits: Callable[[ClientChannel], bool] | None = None
    ) -> ClientChannel | None:
        """Return a connected client of a group for which `admits` returns True, a different one each time;
        None if there is none.
        """
        clients = self._groups.get(group, {}).values()
        connected = [client for client in clients if not client.channel.closed]
        if admits is not None:
            connected = list(filter(admits, connected))
        if not connected:
            return None
        self._turns += 1
        return connected[self._turns % len(connected)]

    def find(self, client_id: str) -> ClientChannel | None:
        """Return the newest connection of a client, regardless of its groups. A connection of another account
        cannot replace it.
        """
        return self._by_id.get(client_id)

    def groups(self) -> Mapping[str, list[ClientChannel]]:
        return {group: list(channels.values()) for group, channels in self._groups.items()}

    def _left(self, client: ClientChannel) -> None:
        """Forget the id of a client that left a group, unless another group or connection uses it."""
        use = client.channel, client.client_id
        self._uses[use] -= 1
        if self._uses[use]:
            return
        del self._uses[use]
        newest = self._by_id.get(client.client_id)
        if newest is not None and newest.channel is client.channel:
            del self._by_id[client.client_id]


def _expire(
    before: int,
    groups: Iterable[tuple[str, Mapping[Channel, ClientChannel]]],
    unregister: Callable[[str, Channel], object],
) -> Generator[None, None, list[tuple[str, Channel]]]:
    old = []
    for name, channels in groups:
        for channel, client in list(channels.items()):
            if client.last_update < before and channels.get(channel) is client:
                unregister(name, channel)
                old.append((name, channel))
            yield
    return old


def _size(subscription: SubscriptionData) -> int:
    tags = subscription.tags_set
    names = len(subscription.topic) + len(subscription.sub_string) + sum(map(len, tags))
    return names + EACH_TAG * (len(tags) + len(subscription.code_set))
