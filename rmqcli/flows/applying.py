"""Settings of topics and groups put on brokers, and what a smaller number of queues hides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from codec.bodies.config import TopicConfig
from codec.codes import Perm
from rmqcli.flows.desired import Step, Tables
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import Admin


async def carry_out(admin: Admin, step: Step) -> None:
    """Put the settings of one entry on its broker; raise ClientError."""
    if isinstance(step.config, TopicConfig):
        await admin.topics.put(step.config, step.broker_name, step.attributes)
        return
    made = await admin.groups.create(step.config, brokers=[step.broker_name])
    for error in made.failures.values():
        raise error


async def hidden(admin: Admin, steps: Sequence[Step], tables: Tables) -> list[str]:
    """Return what consumers will not see any more, by topic and broker."""
    found = []
    for step in steps:
        old = tables[step.broker_name].get(step.name)
        if not isinstance(old, TopicConfig) or not isinstance(step.config, TopicConfig):
            continue
        readable = bool(step.config.perm & Perm.READ) or not old.perm & Perm.READ
        queues = step.config.read_queue_nums if readable else 0
        if queues < old.read_queue_nums:
            unseen = await admin.topics.hidden(step.name, queues, brokers=[step.broker_name])
            if unseen:
                count = many(sum(unseen.values()), "message")
                found.append(f"{step.name} on {step.broker_name}: {count}, which consumers will not see")
    return found
