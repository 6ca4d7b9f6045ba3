"""`rmq broker rocksdb export`, `compare` and `pop`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import Seats
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker.app import rocksdb as app
from rmqcli.commands.common.changing import Change, change_brokers, read_brokers
from rmqcli.commands.common.outcome import end_partly
from rmqcli.render.columns import BROKER
from rmqcli.render.table import Column

FEATURE = "tables in RocksDB"
TABLES: Mapping[str, str] = {
    "topics": "topics",
    "groups": "subscriptionGroups",
    "offsets": "consumerOffsets",
}
"""Our words, and those of `ExportRocksDBConfigToJsonRequestHeader.ConfigType`."""
STATUSES = ("same", "differs", "in progress", "failed")
"""By the number of `CheckRocksdbCqWriteResult.CheckStatus`."""
DAY_MS = 86_400_000

TablesArgument = Annotated[
    list[str] | None, Argument(metavar="TABLE", help="topics, groups or offsets; default: all of them.")
]
TopicOption = Annotated[
    str | None, Option("--topic", "-T", metavar="TOPIC", help="Compare only this topic; default: all.")
]
DaysOption = Annotated[int, Option("--days", metavar="N", min=0, help="Compare messages of the last N days.")]


@command(
    app,
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

    A broker without tables in RocksDB says that it is done, and writes nothing. `rmq inspect rocksdb` reads
    such a folder here. Asks for confirmation; without a terminal, --yes is required. Brokers that refuse or
    do not respond are reported, and the exit code is 3.
    """
    for name in tables or ():
        if name not in TABLES:
            raise usage_error(f"{name}: expected {', '.join(TABLES)}")
    names = tables or list(TABLES)
    change_brokers(
        settings,
        how,
        FEATURE,
        (f"export {', '.join(names)} from RocksDB", f"exported {', '.join(names)}"),
        lambda admin, found: admin.upkeep.export_tables(found, [TABLES[name] for name in names]),
    )


@command(
    app,
    "compare",
    example="rmq broker rocksdb compare --topic orders --days 1",
    rows=Rows.DOCUMENT,
)
def compare(settings: Settings, seats: Seats, topic: TopicOption = None, days: DaysOption = 30) -> None:
    """Make brokers of 5.x compare their consume queues in files with those in RocksDB.

    Brokers answer at once and write what they find to their logs. Piped output: broker (NAME:ID for a slave),
    status (same, differs, in progress, failed), what the broker says of it. Brokers that do not respond are
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
    app,
    "pop",
    example="rmq broker rocksdb pop -b broker-a --dry-run",
    rows=Rows.DOCUMENT,
)
def pop(settings: Settings, how: Change) -> None:
    """Make brokers of 5.x move their records of POP consumption from RocksDB to files.

    Brokers do it before a return to a version without RocksDB. Asks for confirmation; without a terminal,
    --yes is required. Brokers that refuse or do not respond are reported, and the exit code is 3.
    """
    change_brokers(
        settings,
        how,
        "records of POP",
        ("move the records of POP to files", "moved the records of POP"),
        lambda admin, found: admin.upkeep.export_pop_records(found),
    )
