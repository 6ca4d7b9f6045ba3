"""`rmq broker status`, `lag` and `ping`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.options import Masters, Seats
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker import app
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import WatchOption, watchable, watched
from rmqcli.render.table import BROKER, GROUP, LAG, MAX, QUEUE, TOPIC, Column
from rmqcli.render.text import age, local_time

if TYPE_CHECKING:
    from rmqcli.client import Admin, BrokerLag
    from rmqcli.plans.brokers import Ping


@command(
    app,
    "status",
    example="rmq broker status -b broker-a\nrmq broker status --watch=5",
    rows=Rows.LIST,
)
def status(settings: Settings, seats: Seats, watch: WatchOption = None) -> None:
    """Show statistics of brokers and their slaves: traffic, store, waiting requests, delays.

    On a terminal, values have units; piped output and JSON show them as the broker sends them. Piped output:
    broker (NAME:ID for a slave), group of the statistic, name, value. Brokers that do not respond are
    reported, and the exit code is 3. With --watch, the loss of a broker does not end the command.
    """
    watched(settings, watch, lambda: _show(settings, seats))


def _show(settings: Settings, seats: Seats) -> None:
    from rmqcli.render import Column, show_rows
    from rmqcli.render.broker_figures import grouped, human
    from rmqcli.render.table import BROKER

    failures: Failures = {}

    async def main(admin: Admin) -> dict[str, dict[str, str]]:
        return await admin.brokers.runtime_infos(await admin.brokers.seats(**seats.named), failures=failures)

    plain = settings.json or not settings.terminal
    rows = [
        [label, group, name, value if plain else human(name, value)]
        for label, table in with_admin(settings, main).items()
        for group, name, value in grouped(table)
    ]
    columns = [
        BROKER,
        Column("GROUP", "group"),
        Column("FIGURE", "name"),
        Column("VALUE", "value"),
    ]
    show_rows(settings, columns, rows)
    end_partly(failures)


LeastOption = Annotated[
    int,
    Option(
        "--least", metavar="N", min=0, help="Show only queues in which a group lags by at least N messages."
    ),
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
    """Show the lag of all groups on brokers, by queue, as the brokers report it.

    `rmq group describe` shows one group on all brokers. Piped output: broker (NAME:ID for a slave), group,
    topic, queue, committed offset, maximum offset, lag, store time of the last consumed message (epoch ms).
    The lag is empty for an offset beyond the end, which belongs to a deleted topic of the same name. Brokers
    that do not respond are reported, and the exit code is 3.
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


CountOption = Annotated[
    int, Option("--count", "-c", metavar="N", min=1, help="Number of messages for each broker.")
]
SizeOption = Annotated[
    int, Option("--size", metavar="BYTES", min=1, max=4 * 1024 * 1024, help="Size of each message.")
]
IntervalOption = Annotated[
    float, Option("--interval", metavar="SECONDS", min=0, help="Pause between two messages.")
]
TopicOption = Annotated[
    str | None,
    Option("--topic", "-T", metavar="TOPIC", help="Send to the queues of TOPIC, where consumers see it."),
]


@command(
    app,
    "ping",
    example="""rmq broker ping
rmq broker ping -b broker-a -c 100 --size 1024
rmq broker ping --interval 1 -c 60 --json""",
    rows=Rows.LIST,
)
def ping(
    settings: Settings,
    *,
    count: CountOption = 10,
    size: SizeOption = 128,
    interval: IntervalOption = 0.0,
    topic: TopicOption = None,
    masters: Masters,
) -> None:
    """Measure the round trips of sends to every master, in milliseconds.

    The messages go to the topic named after each broker, unless --topic names another one. A first message is
    sent but not measured. A broker that does not respond gets no further messages. Piped output: broker,
    sent, failed, minimum, median, 90th and 99th percentile, maximum. Brokers that refuse or do not respond
    are reported, and the exit code is 3.
    """
    from rmqcli.render import show_rows
    from rmqcli.render.table import BROKER

    found = run_async(lambda: _measure(settings, masters, topic, count, size, interval))
    show_rows(settings, [BROKER, *_columns()], [[name, *_values(one)] for name, one in found.items()])
    failures: Failures = {name: one.error for name, one in found.items() if one.error is not None}
    end_partly(failures, done=any(one.times for one in found.values()))


async def _measure(
    settings: Settings, masters: Masters, topic: str | None, count: int, size: int, interval: float
) -> dict[str, Ping]:
    from rmqcli.client import Admin, Producer
    from rmqcli.plans.brokers import own_queues, ping, queues_of

    async with Admin(**settings.client_options) as admin:
        brokers = await admin.brokers.masters(**masters.named)
        if topic is not None:
            await admin.topics.route(topic)  # a producer would create it
    async with Producer(**settings.producer_options) as producer:
        queues = own_queues(list(brokers)) if topic is None else await queues_of(producer, topic)
        chosen = {name: queues[name] for name in brokers if name in queues}
        return await ping(producer, chosen, count=count, size=size, interval=interval)


def _columns() -> list[Any]:
    from rmqcli.render import Column

    titles = {"sent": "SENT", "failed": "FAILED", "min": "MIN MS", "p50": "P50", "p90": "P90", "p99": "P99"}
    return [Column(title, key, number=True) for key, title in {**titles, "max": "MAX"}.items()]


def _values(found: Ping) -> list[Any]:
    percentiles = [found.percentile(part) for part in (0.0, 0.5, 0.9, 0.99, 1.0)]
    times = [None if time is None else round(time, 3) for time in percentiles]
    return [len(found.times), found.failed, *times]


async def read_configs(admin: Admin, seats: Seats, failures: Failures) -> dict[str, dict[str, str]]:
    """Return the properties of the brokers by label."""
    return await admin.brokers.configs(await admin.brokers.seats(**seats.named), failures=failures)
