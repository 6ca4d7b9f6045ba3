"""`rmq cluster`: the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.options import Settings, command, command_group
from rmqcli.cli.running import run_async, warn
from rmqcli.commands.topic import BrokersOption
from rmqcli.render.table import Column
from rmqcli.render.text import short_number

if TYPE_CHECKING:
    from rmqcli.client import BrokerSummary, ClientError, ConnectedProducer

app = command_group("cluster", "Show clusters, their brokers and producers.")

ProducerGroupOption = Annotated[
    str | None, typer.Option("--group", "-g", metavar="GROUP", help="Only this producer group.")
]


def percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.0%}"


BROKER_COLUMNS = (
    Column("CLUSTER", "cluster"),
    Column("BROKER", "brokerName"),
    Column("ID", "brokerId", number=True),
    Column("ADDRESS", "address", whole=True),
    Column("VERSION", "version"),
    Column("IN/S", "inTps", short_number, number=True),
    Column("OUT/S", "outTps", short_number, number=True),
    Column("TODAY", "putToday", short_number, number=True),
    Column("DISK", "diskRatio", percent, number=True),
)


@command(app, "list", example="rmq cluster list\nrmq cluster list --json | jq '.[].runtime.bootTimestamp'")
def list_clusters(settings: Settings) -> None:
    """List all brokers with version, traffic, load and disk.

    A pipe gets lines: cluster, broker, id (0 is the master), address, version, messages in and out a second, messages
    stored today, share of the disk. A broker that does not answer has empty fields, and the exit code is 3.
    """
    from rmqcli.render import Output, show_rows

    async def main() -> list[BrokerSummary]:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            return await admin.brokers.summaries()

    found = run_async(main)
    if settings.json:
        Output().json([_object([column.key for column in BROKER_COLUMNS], broker) for broker in found])
    else:
        show_rows(
            settings,
            BROKER_COLUMNS,
            [broker_row(broker) for broker in found],
            empty="no broker is registered",
        )
    failed = [broker for broker in found if broker.error is not None]
    for broker in failed:
        warn(f"{broker.broker_name} could not be asked: {broker.error}")
    if failed:
        raise typer.Exit(ExitCode.PARTLY)


@command(app, "producers", example="rmq cluster producers\nrmq cluster producers -g orders-service --json")
def producers(settings: Settings, group: ProducerGroupOption = None, broker: BrokersOption = None) -> None:
    """List the producers that are connected to the masters, by producer group.

    A producer connects to the brokers of the topics it sends to. A pipe gets lines: group, client id, broker, address,
    language, version. Exit code 4 when no producer of GROUP is connected. A broker that does not answer is named, and the
    exit code is 3.
    """
    from codec.versions import version_name
    from rmqcli.commands.common.missing import end_partly
    from rmqcli.render import show_rows

    columns = [
        Column("GROUP", "producerGroup"),
        Column("CLIENT", "clientId"),
        Column("BROKER", "brokerName"),
        Column("ADDRESS", "clientAddr"),
        Column("LANGUAGE", "language"),
        Column("VERSION", "version"),
    ]
    failures: dict[str, ClientError] = {}

    async def main() -> list[ConnectedProducer]:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            if group is None:
                return await admin.clients.producers(brokers=broker or (), failures=failures)
            return await admin.clients.producers_of(group, brokers=broker or (), failures=failures)

    rows = [[*found[:-1], version_name(found.version)] for found in run_async(main)]
    show_rows(settings, columns, rows, empty="" if failures else "no producer is connected")
    end_partly(failures)


def broker_row(broker: BrokerSummary) -> list[Any]:
    """Values for BROKER_COLUMNS."""
    place = [broker.cluster, broker.broker_name, broker.broker_id, broker.address]
    return place + _load(broker.runtime or {})


def _load(runtime: Mapping[str, str]) -> list[Any]:
    stored = [runtime.get(f"msgPutTotalToday{when}", "") for when in ("Now", "Morning")]
    today = int(stored[0]) - int(stored[1]) if all(text.isdigit() for text in stored) else None
    rates = [_first_number(runtime.get(name)) for name in ("putTps", "getTransferedTps")]
    disk = _first_number(runtime.get("commitLogDiskRatio"), digits=3)
    return [runtime.get("brokerVersionDesc"), *rates, today, disk]


def _first_number(text: str | None, digits: int = 1) -> float | None:
    """Rates are three numbers in one text: of 10 s, 1 min, 10 min; fewer in the first seconds."""
    try:
        return round(float((text or "").split()[0]), digits)
    except (IndexError, ValueError):
        return None


def _object(keys: list[str], broker: BrokerSummary) -> dict[str, Any]:
    runtime = None if broker.runtime is None else dict(broker.runtime)
    values = dict(zip(keys, broker_row(broker), strict=True))
    return values | {"runtime": runtime, "error": None if broker.error is None else str(broker.error)}
