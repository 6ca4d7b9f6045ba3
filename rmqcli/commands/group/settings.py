"""`rmq group settings`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.group.app import GroupArgument, app

if TYPE_CHECKING:
    from codec.bodies.config import SubscriptionGroupConfig


@command(
    app,
    "settings",
    example="rmq group settings billing\nrmq group settings billing --json",
    rows=Rows.LIST,
)
def show(group: GroupArgument, settings: Settings) -> None:
    """Show the settings of a group on each broker.

    Piped output: broker, consumption enabled, retries, retry queues, broadcasting allowed, starting at the
    minimum offset allowed, clients notified, broker ID to read from, broker ID to read from when lagging, and
    of 5.x in order through proxies, retry policy. Brokers that do not respond are reported, and the exit code
    is 3.
    """
    import msgspec

    from rmqcli.render import Column, show_rows
    from rmqcli.render.columns import BROKER

    columns = [
        BROKER,
        Column("CONSUME", "consumeEnable"),
        Column("RETRIES", "retryMaxTimes", number=True),
        Column("QUEUES", "retryQueueNums", number=True),
        Column("BROADCAST", "consumeBroadcastEnable"),
        Column("FROM MIN", "consumeFromMinEnable"),
        Column("NOTIFY", "notifyConsumerIdsChangedEnable"),
        Column("READ", "brokerId", number=True),
        Column("SLOW", "whichBrokerWhenConsumeSlowly", number=True),
        Column("ORDERLY", "consumeMessageOrderly"),
        Column("RETRY POLICY", "retryPolicy"),
    ]

    failures: Failures = {}
    configs = with_admin(settings, lambda admin: admin.groups.settings(group, failures=failures))
    rows = [
        [name, *(msgspec.to_builtins(config)[column.key] for column in columns[1:-1]), _policy(config)]
        for name, config in sorted(configs.items())
    ]
    show_rows(settings, columns, rows)
    end_partly(failures)


def _policy(config: SubscriptionGroupConfig) -> str | None:
    from rmqcli.grammar.retry_policy import retry_policy_text

    return None if config.group_retry_policy is None else retry_policy_text(config.group_retry_policy)
