"""`rmq broker cold show`, `set`, `remove` and `read-ahead`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from typer import Argument

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import Seats, at_least_zero
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker.app import cold as app
from rmqcli.commands.common.changing import Change, change_brokers, read_brokers
from rmqcli.commands.common.outcome import end_partly
from rmqcli.render.columns import BROKER, GROUP
from rmqcli.render.table import Column
from rmqcli.render.text import age, local_time

FEATURE = "control of cold reads"
GroupArgument = Annotated[str, Argument(metavar="GROUP", help="Name of the consumer group.")]
BytesArgument = Annotated[
    int, Argument(metavar="BYTES", help="Bytes of cold data that the group may read in a second.")
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
    app,
    "show",
    example="rmq broker cold show -b broker-a",
    rows=Rows.LIST,
)
def show(settings: Settings, seats: Seats) -> None:
    """Show how much cold data groups have read, and their limits (5.x).

    Cold data is what is no longer in memory. (all) is the sum of all groups, (others) the limit of groups
    without one. Piped output: broker (NAME:ID for a slave), group, bytes read in this second, limit, time of
    the last cold read (epoch ms). Brokers that do not respond are reported, and the exit code is 3.
    """
    from rmqcli.render import show_rows

    found, failures = read_brokers(
        settings, seats, FEATURE, lambda admin, found, lost: admin.upkeep.cold_data(found, failures=lost)
    )
    rows = [[label, *row] for label, table in found.items() for row in _rows(table)]
    show_rows(settings, _COLUMNS, rows, empty="no cold data was read")
    end_partly(failures)


def _rows(table: Mapping[str, Any]) -> list[list[Any]]:
    """Group, bytes read, limit, time; `table` has Java's names (`ColdDataCgCtrService`)."""
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
    app,
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
    """Limit the cold data that a group may read in a second (5.x).

    It has an effect where coldDataFlowControlEnable is true. Asks for confirmation; without a terminal, --yes
    is required. Brokers that refuse or do not respond are reported, and the exit code is 3.
    """
    at_least_zero("BYTES", size)
    change_brokers(
        settings,
        how,
        FEATURE,
        (f"limit cold reads of {group} to {size} bytes a second", f"limited cold reads of {group}"),
        lambda admin, found: admin.upkeep.set_cold_limit(found, group, size),
    )


@command(
    app,
    "remove",
    example="rmq broker cold remove billing --yes",
    rows=Rows.DOCUMENT,
)
def remove_limit(
    group: GroupArgument,
    settings: Settings,
    how: Change,
) -> None:
    """Remove the limit of cold reads of a group (5.x).

    Asks for confirmation; without a terminal, --yes is required. Brokers that refuse or do not respond are
    reported, and the exit code is 3.
    """
    change_brokers(
        settings,
        how,
        FEATURE,
        (f"remove the limit of cold reads of {group}", f"removed the limit of {group}"),
        lambda admin, found: admin.upkeep.remove_cold_limit(found, group),
    )


@command(
    app,
    "read-ahead",
    example="rmq broker cold read-ahead random -b broker-a --yes",
    rows=Rows.DOCUMENT,
)
def read_ahead(
    mode: ModeArgument,
    settings: Settings,
    how: Change,
) -> None:
    """Set how the system reads ahead in the commit logs of brokers (5.x).

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
