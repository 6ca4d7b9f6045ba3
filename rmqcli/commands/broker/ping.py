"""`rmq broker ping`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.options import Masters
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker.app import app
from rmqcli.commands.common.outcome import Failures, end_partly

if TYPE_CHECKING:
    from rmqcli.flows.pinging import Ping

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

    The messages go to the topic that every broker has of its own, named after it, unless --topic names one.
    One more message is sent first, which is not measured. A broker that does not answer is not asked again.
    Piped output: broker, sent, failed, minimum, median, 90th and 99th percentile, maximum. Brokers that
    refuse or do not respond are reported, and the exit code is 3.
    """
    from rmqcli.render import show_rows
    from rmqcli.render.columns import BROKER

    found = run_async(lambda: _measure(settings, masters, topic, count, size, interval))
    show_rows(settings, [BROKER, *_columns()], [[name, *_values(one)] for name, one in found.items()])
    failures: Failures = {name: one.error for name, one in found.items() if one.error is not None}
    end_partly(failures, done=any(one.times for one in found.values()))


async def _measure(
    settings: Settings, masters: Masters, topic: str | None, count: int, size: int, interval: float
) -> dict[str, Ping]:
    from rmqcli.client import Admin, Producer
    from rmqcli.flows.pinging import own_queues, ping, queues_of

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
