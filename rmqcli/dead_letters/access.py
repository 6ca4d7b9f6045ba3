"""Opens the dead-letter topic of a group for reading.

Older Java brokers create it with permission w only. Reading such a topic needs temporary read permission,
which is granted only on request, and revoked at the end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from rmqcli.client import Admin, ClientError, TopicNotFound
from rmqcli.codec.bodies.config import TopicConfig
from rmqcli.codec.codes import Perm
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import dlq_topic
from rmqcli.dead_letters.letter import NoDeadLetters, NotReadable
from rmqcli.render.output import warn

RESTORE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Opened:
    """The readable queues of a dead-letter topic. `granted`: brokers on which it is temporarily readable;
    `failures`: the errors of brokers that did not respond, by name.
    """

    topic: str
    queues: tuple[MessageQueue, ...]
    granted: tuple[str, ...] = ()
    failures: Mapping[str, ClientError] = field(default_factory=dict)


@asynccontextmanager
async def opened(admin: Admin, group: str, *, grant: bool) -> AsyncIterator[Opened]:
    """Yield the queues. Raise NoDeadLetters, NotReadable without `grant`, or ClientError."""
    topic = dlq_topic(group)
    failures: dict[str, ClientError] = {}
    try:
        settings = await admin.topics.settings(topic, failures=failures)
    except TopicNotFound:
        await admin.groups.check_known(group, failures)
        raise NoDeadLetters(f"group {group} has no dead letters: there is no topic {topic}") from None
    shut = {name: config for name, config in settings.items() if not config.perm & Perm.READ}
    if shut and not grant:
        raise NotReadable(
            f"topic {topic} may not be read on {', '.join(shut)}; --grant-read gives it read permission "
            "while the command runs"
        )
    queues = tuple(
        MessageQueue(topic, name, number)
        for name, config in settings.items()
        for number in range(max(1, config.read_queue_nums))
    )
    try:
        for name, config in shut.items():
            await admin.topics.update(topic, brokers=[name], perm=config.perm | Perm.READ)
        yield Opened(topic, queues, tuple(shut), failures)
    finally:
        # Even after Ctrl-C: the permission was granted only for this block.
        with trio.move_on_after(RESTORE_SECONDS, shield=True):
            await _restore(admin, topic, shut)


async def _restore(admin: Admin, topic: str, shut: Mapping[str, TopicConfig]) -> None:
    for name, config in shut.items():
        try:
            await admin.topics.update(topic, brokers=[name], perm=config.perm)
        except ClientError as error:
            warn(f"{name}: topic {topic} keeps its read permission: {error}")
