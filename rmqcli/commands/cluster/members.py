"""`rmq cluster list` and `rmq cluster producers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.options import BrokersOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.cluster import app
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import watchable
from rmqcli.render.table import BROKER, CLIENT, Column
from rmqcli.render.text import short_number

if TYPE_CHECKING:
    from rmqcli.client import Admin, BrokerSummary, ConnectedProducer


def percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.0%}"


BROKER_COLUMNS = (
    Column("CLUSTER", "cluster"),
    BROKER,
    Column("ID", "brokerId", number=True),
    Column("ADDRESS", "address", whole=True),
    Column("VERSION", "version"),
    Column("IN/S", "inTps", short_number, number=True),
    Column("OUT/S", "outTps", short_number, number=True),
    Column("TODAY", "putToday", short_number, number=True),
    Column("DISK", "diskRatio", percent, number=True),
)


@command(
    app,
    "list",
    example="rmq cluster list\nrmq cluster list --json | jq '.[].runtime.bootTimestamp'",
    rows=Rows.LIST,
)
@watchable
def list_clusters(settings: Settings) -> None:
    """List the brokers with version, throughput and disk usage.

    Piped output: cluster, broker, ID (0 is the master), address, version, messages in and out per second,
    messages stored today, disk usage. Brokers that do not respond have empty fields, and the exit code is 3.
    """
    from rmqcli.render import show_rows
    from rmqcli.render.table import show_objects

    found = with_admin(settings, lambda admin: admin.brokers.summaries())
    if settings.json:
        show_objects(
            settings, [_object([column.key for column in BROKER_COLUMNS], broker) for broker in found]
        )
    else:
        show_rows(
            settings, BROKER_COLUMNS, [broker_row(broker) for broker in found], empty="no brokers registered"
        )
    end_partly(*({broker.broker_name: broker.error} for broker in found if broker.error is not None))


def broker_row(broker: BrokerSummary) -> list[Any]:
    """Return the values of BROKER_COLUMNS."""
    place = [broker.cluster, broker.broker_name, broker.broker_id, broker.address]
    return place + _load(broker.runtime or {})


def _load(runtime: Mapping[str, str]) -> list[Any]:
    stored = [runtime.get(f"msgPutTotalToday{when}", "") for when in ("Now", "Morning")]
    today = int(stored[0]) - int(stored[1]) if all(text.isdigit() for text in stored) else None
    out = runtime.get("getTransferredTps") or runtime.get("getTransferedTps")  # of 5.x, of 4.x
    rates = [_first_number(runtime.get("putTps")), _first_number(out)]
    disk = _first_number(runtime.get("commitLogDiskRatio"), digits=3)
    return [runtime.get("brokerVersionDesc"), *rates, today, disk]


def _first_number(text: str | None, digits: int = 1) -> float | None:
    """Return the first of the rates in a text: over 10 s, 1 min and 10 min, but fewer soon after a start."""
    try:
        return round(float((text or "").split()[0]), digits)
    except (IndexError, ValueError):
        return None


def _object(keys: list[str], broker: BrokerSummary) -> dict[str, Any]:
    runtime = None if broker.runtime is None else dict(broker.runtime)
    values = dict(zip(keys, broker_row(broker), strict=True))
    return values | {"runtime": runtime, "error": None if broker.error is None else str(broker.error)}


ProducerGroupOption = Annotated[
    str | None, Option("--group", "-g", metavar="GROUP", help="Show only this producer group.")
]


@command(
    app,
    "producers",
    example="rmq cluster producers\nrmq cluster producers -g orders-service --json",
    rows=Rows.LIST,
)
@watchable
def producers(settings: Settings, group: ProducerGroupOption = None, broker: BrokersOption = None) -> None:
    """List the producers connected to the masters, by producer group.

    A producer connects to the brokers of the topics it sends to. Piped output: group, client ID, broker,
    address, language, version. Exit code 4 if no producer of GROUP is connected. Brokers that do not respond
    are reported, and the exit code is 3.
    """
    from rmqcli.codec.versions import version_name
    from rmqcli.render import show_rows

    columns = [
        Column("GROUP", "producerGroup", whole=True),
        CLIENT,
        BROKER,
        Column("ADDRESS", "clientAddr", whole=True),
        Column("LANGUAGE", "language", minor=True),
        Column("VERSION", "version", minor=True),
    ]
    failures: Failures = {}

    async def main(admin: Admin) -> list[ConnectedProducer]:
        if group is None:
            return await admin.clients.producers(brokers=broker or (), failures=failures)
        return await admin.clients.producers_of(group, brokers=broker or (), failures=failures)

    rows = [[*found[:-1], version_name(found.version)] for found in with_admin(settings, main)]
    show_rows(settings, columns, rows, empty="" if failures else "no producers connected")
    end_partly(failures)
