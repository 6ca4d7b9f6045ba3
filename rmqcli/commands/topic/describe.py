"""`rmq topic describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqcli.cli.command import command
from rmqcli.cli.options import TopicArgument
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.topic.app import app, perm_text

if TYPE_CHECKING:
    from codec.bodies.config import TopicConfig
    from rmqcli.client import Admin


@command(
    app,
    "describe",
    example="rmq topic describe orders",
    rows=Rows.LIST,
)
def describe(topic: TopicArgument, settings: Settings) -> None:
    """Show the settings of a topic on each broker, and its consumer groups.

    Piped output: broker, read queues, write queues, permission, order, messages, groups, attributes (5.x).
    Brokers that do not respond are reported, and the exit code is 3.
    """
    from rmqcli.client.admin.values import stored
    from rmqcli.render import Column, show_rows
    from rmqcli.render.columns import BROKER, MESSAGES

    columns = [
        BROKER,
        Column("READ", "readQueueNums", number=True),
        Column("WRITE", "writeQueueNums", number=True),
        Column("PERM", "perm", perm_text),
        Column("ORDER", "order"),
        MESSAGES,
        Column("GROUPS", "groups"),
        Column("ATTRIBUTES", "attributes"),
    ]
    failures: Failures = {}

    async def main(admin: Admin) -> list[list[Any]]:
        configs = await admin.topics.settings(topic, failures=failures)
        stats = await admin.topics.stats(topic, failures=failures)
        groups = await admin.topics.groups(topic, failures=failures)
        kept = {
            name: stored({queue: ends for queue, ends in stats.items() if queue.broker_name == name})
            for name in configs
        }
        return [
            [
                name,
                c.read_queue_nums,
                c.write_queue_nums,
                c.perm,
                c.order,
                kept[name],
                groups,
                _attributes(c),
            ]
            for name, c in sorted(configs.items())
        ]

    show_rows(settings, columns, with_admin(settings, main))
    end_partly(failures)


def _attributes(config: TopicConfig) -> list[str]:
    return [f"{name}={value}" for name, value in sorted((config.attributes or {}).items())]
