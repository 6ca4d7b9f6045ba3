"""`rmq broker lag`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker.app import Seats, app
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.client.admin.values import BrokerLag

LeastOption = Annotated[
    int, Option("--least", metavar="N", min=0, help="Show only queues in which a group is N messages behind.")
]


@command(app, "lag", example="rmq broker lag -b broker-a\nrmq broker lag --least 1000")
def lag(settings: Settings, seats: Seats, least: LeastOption = 0) -> None:
    """Show the lag of all groups on brokers, by queue, as the brokers know it.

    `rmq group describe` shows one group on all brokers. Piped output: broker (NAME:ID for a slave), group,
    topic, queue, committed offset, maximum offset, lag, store time of the last consumed message (epoch ms). The
    lag is empty for an offset beyond the end, which belongs to a former topic of this name.
    Brokers that do not respond are reported, and the exit code is 3.
    """
    from rmqcli.render import Column, show_rows
    from rmqcli.render.columns import BROKER, GROUP, LAG, MAX, QUEUE, TOPIC
    from rmqcli.render.text import local_time

    failures: Failures = {}

    async def main(admin: Admin) -> list[BrokerLag]:
        return await admin.brokers.lags(await admin.brokers.seats(**seats.named), failures=failures)

    columns = [
        BROKER,
        GROUP,
        TOPIC,
        QUEUE,
        Column("OFFSET", "consumerOffset", number=True),
        MAX,
        LAG,
        Column("LAST CONSUMED", "lastTimestamp", local_time),
    ]
    rows = [
        [
            one.broker,
            one.group,
            one.queue.topic,
            one.queue.queue_id,
            one.offsets.consumer_offset,
            one.offsets.broker_offset,
            one.lag,
            one.offsets.last_timestamp,
        ]
        for one in with_admin(settings, main)
        if one.lag is None or one.lag >= least
    ]
    show_rows(settings, columns, rows, empty="no group has offsets" if not least else "no lag of this size")
    end_partly(failures)
