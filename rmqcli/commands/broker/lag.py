"""`rmq broker lag`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.options import Seats
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker.app import app
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import watchable
from rmqcli.render.columns import BROKER, GROUP, LAG, MAX, QUEUE, TOPIC
from rmqcli.render.table import Column
from rmqcli.render.text import age, local_time

if TYPE_CHECKING:
    from rmqcli.client import Admin, BrokerLag

LeastOption = Annotated[
    int, Option("--least", metavar="N", min=0, help="Show only queues in which a group is N messages behind.")
]


_COLUMNS = (
    BROKER,
    GROUP,
    TOPIC,
    QUEUE,
    Column("OFFSET", "consumerOffset", number=True),
    MAX,
    LAG,
    Column("LAST CONSUMED", "lastTimestamp", local_time, brief=age),
)


@command(
    app,
    "lag",
    example="rmq broker lag -b broker-a\nrmq broker lag --least 1000",
    rows=Rows.LIST,
)
@watchable
def lag(settings: Settings, seats: Seats, least: LeastOption = 0) -> None:
    """Show the lag of all groups on brokers, by queue, as the brokers know it.

    `rmq group describe` shows one group on all brokers. Piped output: broker (NAME:ID for a slave), group,
    topic, queue, committed offset, maximum offset, lag, store time of the last consumed message (epoch ms).
    The lag is empty for an offset beyond the end, which belongs to a former topic of this name. Brokers that
    do not respond are reported, and the exit code is 3.
    """
    from rmqcli.render import show_rows

    failures: Failures = {}

    async def main(admin: Admin) -> list[BrokerLag]:
        return await admin.brokers.lags(await admin.brokers.seats(**seats.named), failures=failures)

    found = with_admin(settings, main)
    rows = [_row(one) for one in found if one.lag is None or one.lag >= least]
    show_rows(settings, _COLUMNS, rows, empty="no lag of this size" if least else "no group has offsets")
    end_partly(failures)


def _row(one: BrokerLag) -> list[Any]:
    queue, offsets = one.queue, one.offsets
    progress = [offsets.consumer_offset, offsets.broker_offset, one.lag, offsets.last_timestamp]
    return [one.broker, one.group, queue.topic, queue.queue_id, *progress]
