"""`rmq broker clean`, `drain`, `undrain`, `cold`, `rocksdb`, `container` and `advance`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.options import BrokerArgument, Seats, YesOption, at_least_zero
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker import (
    app,
    clean_group,
    cold_group,
    container_group,
    rocksdb_group,
)
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.applying import Change, change_brokers, read_brokers, with_feature
from rmqcli.commands.common.configuration import DryRunOption
from rmqcli.commands.common.outcome import Failures, confirm, end_partly, show_change
from rmqcli.grammar.values import parse_duration_ms
from rmqcli.render.output import Output, note, warn
from rmqcli.render.table import BROKER, GROUP, Column
from rmqcli.render.text import age, local_time

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange
    from rmqcli.client.admin.brokers import Cleaning


@command(
    clean_group,
    "queues",
    example="rmq broker clean queues -b broker-a --yes",
    rows=Rows.DOCUMENT,
)
def queues(settings: Settings, seats: Seats, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
    """Remove the consume queues of topics that no longer exist.

    Asks for confirmation; without a terminal, --yes is required. Brokers that refuse or do not respond are
    reported, and the exit code is 3.
    """
    _clean(settings, seats, "queues", "consume queues of deleted topics", dry_run=dry_run, yes=yes)


@command(
    clean_group,
    "topics",
    example="rmq broker clean topics --cluster DefaultCluster --yes",
    rows=Rows.DOCUMENT,
)
def topics(settings: Settings, seats: Seats, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
    """Remove the consume queues of topics without settings.

    Asks for confirmation; without a terminal, --yes is required. Brokers that refuse or do not respond are
    reported, and the exit code is 3.
    """
    _clean(settings, seats, "topics", "consume queues of topics without settings", dry_run=dry_run, yes=yes)


@command(
    clean_group,
    "log",
    example="rmq broker clean log -b broker-a --dry-run",
    rows=Rows.DOCUMENT,
)
def log(settings: Settings, seats: Seats, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
    """Delete expired files of the commit log now instead of at the hour of deleteWhen.

    The messages in files older than fileReservedTime are lost. Asks for confirmation; without a terminal,
    --yes is required. Brokers that refuse or do not respond are reported, and the exit code is 3.
    """
    _clean(settings, seats, "log", "expired files of the commit log", dry_run=dry_run, yes=yes)


def _clean(settings: Settings, seats: Seats, what: Cleaning, text: str, *, dry_run: bool, yes: bool) -> None:
    from rmqcli.render import Column, show_rows
    from rmqcli.render.table import BROKER

    async def find(admin: Admin) -> dict[str, str]:
        return await admin.brokers.seats(**seats.named)

    found = with_admin(settings, find)
    if dry_run:
        rows: list[Any] = [[label, address] for label, address in found.items()]
        show_rows(settings, [BROKER, Column("ADDRESS", "address", whole=True)], rows)
        return
    confirm(settings, f"remove {text} on {', '.join(found)}?", yes=yes, lost=[text])
    change = with_admin(settings, lambda admin: admin.brokers.clean(found, what))
    show_change(settings, f"removed {text} on", change)


WaitIdleOption = Annotated[
    bool, Option("--wait-idle", help="Wait until the broker has stored nothing for 10 s.")
]
LimitOption = Annotated[
    float | None,
    Option("--limit", metavar="SECONDS", min=0.1, help="Time limit of --wait-idle; default: none."),
]


@command(
    app,
    "drain",
    example="rmq broker drain broker-b --dry-run\nrmq broker drain broker-b --wait-idle --yes",
    rows=Rows.DOCUMENT,
)
def drain(
    broker: BrokerArgument,
    settings: Settings,
    *,
    wait_idle: WaitIdleOption = False,
    limit: LimitOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Revoke the write permission of a broker on all name servers, so that producers leave it.

    Warns of topics that no other broker accepts messages for, and asks for confirmation; without a terminal,
    --yes is required. Consumers continue. Producers follow within 30 s. A broker whose topics change
    registers them again and regains the permission: repeat the command then. `rmq broker undrain` restores
    the permission.

    Piped output: name server, number of topics. Name servers that do not respond are reported, and the exit
    code is 3. With --wait-idle, exit code 7 if the broker still stores messages after --limit, or reports no
    rate of messages for a minute and there is no --limit.
    """
    if limit is not None and not wait_idle:
        raise usage_error("--limit requires --wait-idle")
    address, topics = with_admin(settings, lambda admin: _look(admin, broker))
    if topics:
        warn(f"no other broker takes messages of {', '.join(topics)}: sends to them will fail")
    if dry_run:
        note(f"{broker} would lose its write permission; nothing was changed")
        _show(settings, broker, {}, {"onlyWritable": topics, "dryRun": True})
        return
    confirm(
        settings,
        f"take the write permission from {broker}?",
        yes=yes,
        lost=[f"sends to {', '.join(topics)}"] if topics else (),
    )
    failures: Failures = {}
    counts = with_admin(
        settings, lambda admin: admin.name_servers.wipe_write_permission(broker, failures=failures)
    )
    idle = with_admin(settings, lambda admin: _wait(admin, address, limit)) if wait_idle else None
    _show(settings, broker, counts, {"onlyWritable": topics, "idle": idle})
    end_partly(failures)
    if wait_idle and idle is None:
        text = f"{broker} reports no rate of stored messages: whether it is idle is unknown"
        raise CommandError(f"{text}; --limit SECONDS waits longer", ExitCode.TIMED_OUT)
    if idle is False:
        raise CommandError(f"{broker} still stores messages after {limit:g} s", ExitCode.TIMED_OUT)


@command(
    app,
    "undrain",
    example="rmq broker undrain broker-b",
    rows=Rows.DOCUMENT,
)
def undrain(broker: BrokerArgument, settings: Settings) -> None:
    """Restore the write permission of a broker on all name servers.

    Piped output: name server, number of topics. Name servers that do not respond are reported, and the exit
    code is 3.
    """
    failures: Failures = {}

    async def main(admin: Admin) -> dict[str, int]:
        await admin.brokers.seats(brokers=[broker])
        return await admin.name_servers.add_write_permission(broker, failures=failures)

    _show(settings, broker, with_admin(settings, main), {})
    end_partly(failures)


async def _look(admin: Admin, broker: str) -> tuple[str, list[str]]:
    """Return the address of the broker, and the topics that no other broker accepts messages for."""
    from rmqcli.plans.brokers import only_writable_on

    masters = await admin.brokers.masters(brokers=[broker])
    return masters[broker], await only_writable_on(admin, broker)


async def _wait(admin: Admin, address: str, limit: float | None) -> bool | None:
    from rmqcli.plans.brokers import wait_until_idle

    told: list[str] = []

    def report(rate: float | None) -> None:
        text = "not known yet" if rate is None else f"{rate:,.1f}/s"
        if told[-1:] != [text]:
            told.append(text)
            note(f"waiting: messages stored: {text}")

    return await wait_until_idle(admin, address, report, limit)


def _show(settings: Settings, broker: str, counts: dict[str, int], more: dict[str, Any]) -> None:
    from rmqcli.render.table import NAME_SERVER, Column, show_rows

    if settings.json:
        Output().json({"broker": broker, "nameServers": counts, **more})
        return
    columns = [NAME_SERVER, Column("TOPICS", "topics", number=True)]
    show_rows(settings, columns, list(counts.items()))


DurationArgument = Annotated[
    str, Argument(metavar="DURATION", help="Time to move forward, such as 30s or 1h30m.", show_default=False)
]


@command(app, "advance", example="rmq broker advance 1h30m")
def advance(duration: DurationArgument, settings: Settings, seats: Seats) -> None:
    """Move the clock of a test broker forward.

    Timers, delayed and invisible messages, and checks of transactions that are due by then happen at once.
    The clocks of clients do not move. Only brokers of `rmq up` without --store, and of embedded clusters,
    have such a clock; others refuse, and do not change. Brokers that refuse or do not respond are reported,
    and the exit code is 3.
    """
    milliseconds = parse_duration_ms(duration)
    if milliseconds is None:
        raise usage_error(f"{duration}: expected a duration such as 30s, 5m or 1h30m")

    async def main(admin: Admin) -> TopicChange:
        return await admin.brokers.advance_clock(await admin.brokers.seats(**seats.named), milliseconds)

    show_change(
        settings, f"advanced the clock by {duration} on", with_feature(settings, "clock that moves", main)
    )


COLD_FEATURE = "control of cold reads"
GroupArgument = Annotated[str, Argument(metavar="GROUP", help="Name of the consumer group.")]
BytesArgument = Annotated[
    int, Argument(metavar="BYTES", help="Bytes of cold data that the group may read per second.")
]
ModeArgument = Annotated[
    str, Argument(metavar="MODE", help="normal, or random: the system does not read ahead.")
]
MODES: Mapping[str, int] = {"normal": 0, "random": 1}
"""The numbers of madvise(2)."""
ALL, OTHERS = "(all)", "(others)"
_COLUMNS = (
    BROKER,
    GROUP,
    Column("READ", "read", number=True),
    Column("LIMIT", "limit", number=True),
    Column("LAST READ", "lastRead", local_time, brief=age),
)


@command(
    cold_group,
    "show",
    example="rmq broker cold show -b broker-a",
    rows=Rows.LIST,
)
def show(settings: Settings, seats: Seats) -> None:
    """Show how much cold data groups have read, and their limits (5.x).

    Cold data is data that is no longer in memory. (all) is the sum of all groups, (others) the limit that
    applies to groups not listed. Piped output: broker (NAME:ID for a slave), group, bytes read in this
    second, limit, time of the last cold read (epoch ms). Brokers that do not respond are reported, and the
    exit code is 3.
    """
    from rmqcli.render import show_rows

    found, failures = read_brokers(
        settings, seats, COLD_FEATURE, lambda admin, found, lost: admin.upkeep.cold_data(found, failures=lost)
    )
    rows = [[label, *row] for label, table in found.items() for row in _rows(table)]
    show_rows(settings, _COLUMNS, rows, empty="no cold data was read")
    end_partly(failures)


def _rows(table: Mapping[str, Any]) -> list[list[Any]]:
    """Return rows of group, bytes read, limit and time; `table` has Java's names (`ColdDataCgCtrService`)."""
    read, limits = table.get("runtimeTable") or {}, table.get("configTable") or {}
    groups = [
        [
            name,
            read.get(name, {}).get("coldAcc"),
            limits.get(name),
            read.get(name, {}).get("lastColdReadTimeMills"),
        ]
        for name in sorted({*read, *limits})
    ]
    whole = [[ALL, table.get("globalAcc"), table.get("globalColdReadThreshold"), None]]
    others = [[OTHERS, None, table.get("cgColdReadThreshold"), None]]
    return groups + [row for row in (*others, *whole) if row[2] is not None]


@command(
    cold_group,
    "set",
    example="rmq broker cold set billing 1048576 -b broker-a --yes",
    rows=Rows.DOCUMENT,
)
def set_limit(
    group: GroupArgument,
    size: BytesArgument,
    settings: Settings,
    how: Change,
) -> None:
    """Limit the cold data that a group may read per second (5.x).

    The limit has an effect only where coldDataFlowControlEnable is true. Asks for confirmation; without a
    terminal, --yes is required. Brokers that refuse or do not respond are reported, and the exit code is 3.
    """
    at_least_zero("BYTES", size)
    change_brokers(
        settings,
        how,
        COLD_FEATURE,
        (f"limit cold reads of {group} to {size} bytes a second", f"limited cold reads of {group}"),
        lambda admin, found: admin.upkeep.set_cold_limit(found, group, size),
    )


@command(
    cold_group,
    "remove",
    example="rmq broker cold remove billing --yes",
    rows=Rows.DOCUMENT,
)
def remove_limit(
    group: GroupArgument,
    settings: Settings,
    how: Change,
) -> None:
    """Remove the limit on cold reads of a group (5.x).

    Asks for confirmation; without a terminal, --yes is required. Brokers that refuse or do not respond are
    reported, and the exit code is 3.
    """
    change_brokers(
        settings,
        how,
        COLD_FEATURE,
        (f"remove the limit of cold reads of {group}", f"removed the limit of {group}"),
        lambda admin, found: admin.upkeep.remove_cold_limit(found, group),
    )


@command(
    cold_group,
    "read-ahead",
    example="rmq broker cold read-ahead random -b broker-a --yes",
    rows=Rows.DOCUMENT,
)
def read_ahead(
    mode: ModeArgument,
    settings: Settings,
    how: Change,
) -> None:
    """Set how the operating system reads ahead in the commit logs of brokers (5.x).

    Asks for confirmation; without a terminal, --yes is required. Brokers that refuse or do not respond are
    reported, and the exit code is 3.
    """
    if mode not in MODES:
        raise usage_error(f"{mode}: expected {' or '.join(MODES)}")
    change_brokers(
        settings,
        how,
        "control of read-ahead",
        (f"set the read-ahead to {mode}", f"set the read-ahead {mode}"),
        lambda admin, found: admin.upkeep.set_read_ahead(found, MODES[mode]),
    )


ROCKSDB_FEATURE = "tables in RocksDB"
TABLES: Mapping[str, str] = {
    "topics": "topics",
    "groups": "subscriptionGroups",
    "offsets": "consumerOffsets",
}
"""The names of the argument, with those of `ExportRocksDBConfigToJsonRequestHeader.ConfigType`."""
STATUSES = ("same", "differs", "in progress", "failed")
"""Indexed by the number of `CheckRocksdbCqWriteResult.CheckStatus`."""
DAY_MS = 86_400_000

TablesArgument = Annotated[
    list[str] | None, Argument(metavar="TABLE", help="topics, groups or offsets; default: all.")
]
TopicOption = Annotated[
    str | None, Option("--topic", "-T", metavar="TOPIC", help="Compare only this topic; default: all.")
]
DaysOption = Annotated[int, Option("--days", metavar="N", min=0, help="Compare messages of the last N days.")]


@command(
    rocksdb_group,
    "export",
    example="rmq broker rocksdb export topics groups -b broker-a --yes",
    rows=Rows.DOCUMENT,
)
def export(
    settings: Settings,
    how: Change,
    tables: TablesArgument = None,
) -> None:
    """Make brokers of 5.x write their tables from RocksDB as JSON files on their own disks.

    A broker without tables in RocksDB reports success but writes nothing. `rmq inspect rocksdb` reads the
    tables of a local folder. Asks for confirmation; without a terminal, --yes is required. Brokers that
    refuse or do not respond are reported, and the exit code is 3.
    """
    for name in tables or ():
        if name not in TABLES:
            raise usage_error(f"{name}: expected {', '.join(TABLES)}")
    names = tables or list(TABLES)
    change_brokers(
        settings,
        how,
        ROCKSDB_FEATURE,
        (f"export {', '.join(names)} from RocksDB", f"exported {', '.join(names)}"),
        lambda admin, found: admin.upkeep.export_tables(found, [TABLES[name] for name in names]),
    )


@command(
    rocksdb_group,
    "compare",
    example="rmq broker rocksdb compare --topic orders --days 1",
    rows=Rows.DOCUMENT,
)
def compare(settings: Settings, seats: Seats, topic: TopicOption = None, days: DaysOption = 30) -> None:
    """Make brokers of 5.x compare their consume queues in files with those in RocksDB.

    Brokers respond at once and write their findings to their logs. Piped output: broker (NAME:ID for a
    slave), status (same, differs, in progress, failed), text of the broker. Brokers that do not respond are
    reported, and the exit code is 3.
    """
    from rmqcli.render import show_rows

    since = int(time.time() * 1000) - days * DAY_MS
    found, failures = read_brokers(
        settings,
        seats,
        "consume queues in RocksDB",
        lambda admin, found, lost: admin.upkeep.compare_queues(found, topic or "", since, failures=lost),
    )
    rows = [
        [label, _status(document.get("checkStatus")), document.get("checkResult")]
        for label, document in found.items()
    ]
    show_rows(settings, [BROKER, Column("STATUS", "status"), Column("RESULT", "result")], rows)
    end_partly(failures)


def _status(number: object) -> str:
    known = isinstance(number, int) and 0 <= number < len(STATUSES)
    return STATUSES[number] if known and isinstance(number, int) else str(number)


@command(
    rocksdb_group,
    "pop",
    example="rmq broker rocksdb pop -b broker-a --dry-run",
    rows=Rows.DOCUMENT,
)
def pop(settings: Settings, how: Change) -> None:
    """Make brokers of 5.x move their records of POP consumption from RocksDB to files.

    Use it before a downgrade to a version without RocksDB. Asks for confirmation; without a terminal, --yes
    is required. Brokers that refuse or do not respond are reported, and the exit code is 3.
    """
    change_brokers(
        settings,
        how,
        "records of POP",
        ("move the records of POP to files", "moved the records of POP"),
        lambda admin, found: admin.upkeep.export_pop_records(found),
    )


CONTAINER_FEATURE = "container of brokers"
ContainerArgument = Annotated[str, Argument(metavar="CONTAINER", help="Address of the container, HOST:PORT.")]
PathArgument = Annotated[
    str, Argument(metavar="PATH", help="Configuration file of the broker on the container's machine.")
]
ClusterArgument = Annotated[str, Argument(metavar="CLUSTER", help="Cluster of the broker.")]
IdArgument = Annotated[int, Argument(metavar="[ID]", help="ID of the broker; 0 is the master.")]


@command(container_group, "add", example="rmq broker container add 10.0.0.1:10811 /conf/broker-b.conf --yes")
def add(container: ContainerArgument, path: PathArgument, settings: Settings, yes: YesOption = False) -> None:
    """Start a broker in a container of 5.x.

    Asks for confirmation; without a terminal, --yes is required.
    """
    confirm(settings, f"start the broker of {path} in the container {container}?", yes=yes)
    with_feature(settings, CONTAINER_FEATURE, lambda admin: admin.upkeep.add_broker(container, path))
    _done(settings, container, f"started the broker of {path} in {container}")


@command(
    container_group,
    "remove",
    example="rmq broker container remove 10.0.0.1:10811 DefaultCluster broker-b 0 --yes",
)
def remove(
    container: ContainerArgument,
    cluster: ClusterArgument,
    broker: BrokerArgument,
    settings: Settings,
    broker_id: IdArgument = 0,
    yes: YesOption = False,
) -> None:
    """Stop a broker in a container of 5.x. Its files are kept.

    Asks for confirmation; without a terminal, --yes is required.
    """
    at_least_zero("ID", broker_id)
    confirm(settings, f"stop {broker}:{broker_id} in the container {container}?", yes=yes)
    with_feature(
        settings,
        CONTAINER_FEATURE,
        lambda admin: admin.upkeep.remove_broker(container, cluster, broker, broker_id),
    )
    _done(settings, container, f"stopped {broker}:{broker_id} in {container}")


def _done(settings: Settings, container: str, text: str) -> None:
    if settings.json:
        Output().json({"container": container})
    else:
        note(text)
