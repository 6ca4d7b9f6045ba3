"""`rmq broker ha show`, `epochs` and `reset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from rmqcli.cli.command import command
from rmqcli.cli.options import Seats, at_least_zero
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker import ha_group
from rmqcli.commands.common.applying import Change, change_brokers, read_brokers
from rmqcli.commands.common.outcome import end_partly
from rmqcli.commands.common.watching import WatchOption, watched
from rmqcli.render.table import BROKER, Column
from rmqcli.render.text import local_time

if TYPE_CHECKING:
    from rmqcli.codec.bodies.controller import HARuntimeInfo

STATES = "state of replication"
OffsetArgument = Annotated[int, Argument(metavar="OFFSET", help="Offset of the commit log, in bytes.")]
_COLUMNS = (
    BROKER,
    Column("ROLE", "role"),
    Column("LOG END", "maxOffset", number=True),
    Column("PEER", "peer", whole=True),
    Column("ACKNOWLEDGED", "acknowledged", number=True),
    Column("BEHIND", "behind", number=True),
    Column("BYTES/S", "bytesPerSecond", number=True, minor=True),
    Column("IN SYNC", "inSync", minor=True),
    Column("LAST READ", "lastRead", local_time, minor=True),
)


@command(
    ha_group,
    "show",
    example="rmq broker ha show\nrmq broker ha show --cluster DefaultCluster --watch=5",
    rows=Rows.LIST,
)
def show(settings: Settings, seats: Seats, watch: WatchOption = None) -> None:
    """Show the progress of the slaves of each master, and the master of each slave (5.x).

    A master has one line per slave, or one line without a peer. Piped output: broker (NAME:ID for a slave),
    role, end of its log, address of the peer, offset that the slave has acknowledged, lag in bytes, bytes per
    second, true if the slave is in sync, time when a slave last read (epoch ms). Brokers that do not respond
    are reported, and the exit code is 3.
    """
    watched(settings, watch, lambda: _show(settings, seats))


def _show(settings: Settings, seats: Seats) -> None:
    from rmqcli.render import show_rows

    found, failures = read_brokers(
        settings, seats, STATES, lambda admin, found, lost: admin.replication.states(found, failures=lost)
    )
    show_rows(settings, _COLUMNS, [row for label, state in found.items() for row in _rows(label, state)])
    end_partly(failures)


def _rows(label: str, state: HARuntimeInfo) -> list[list[Any]]:
    if (client := state.ha_client_runtime_info) is not None and not state.master:
        behind = max(0, client.master_flush_offset - client.max_offset)
        rate, read = client.transferred_byte_in_second, client.last_read_timestamp or None
        return [[label, "slave", client.max_offset, client.master_addr, None, behind, rate, None, read]]
    end = state.master_commit_log_max_offset
    slaves = [
        [one.addr, one.slave_ack_offset, one.diff, one.transferred_byte_in_second, one.in_sync, None]
        for one in state.ha_connection_info
    ]
    return [[label, "master", end, *slave] for slave in slaves or [[None] * 6]]


@command(
    ha_group,
    "epochs",
    example="rmq broker ha epochs -b broker-a",
    rows=Rows.LIST,
)
def epochs(settings: Settings, seats: Seats) -> None:
    """Show which part of each log was written under which master (5.x with a controller).

    Piped output: broker (NAME:ID for a slave), epoch, its first offset, its last offset, end of the log.
    Brokers without a controller refuse; they are reported, and the exit code is 3.
    """
    from rmqcli.render import show_rows

    columns = [
        BROKER,
        Column("EPOCH", "epoch", number=True),
        Column("START", "startOffset", number=True),
        Column("END", "endOffset", number=True),
        Column("LOG END", "maxOffset", number=True),
    ]
    found, failures = read_brokers(
        settings, seats, "epochs", lambda admin, found, lost: admin.replication.epochs(found, failures=lost)
    )
    rows = [
        [label, one.epoch, one.start_offset, one.end_offset, cache.max_offset]
        for label, cache in found.items()
        for one in cache.epoch_list
    ]
    show_rows(settings, columns, rows, empty="no epochs")
    end_partly(failures)


@command(
    ha_group,
    "reset",
    example="rmq broker ha reset 1073741824 -b broker-a --yes",
    rows=Rows.DOCUMENT,
)
def reset(
    offset: OffsetArgument,
    settings: Settings,
    how: Change,
) -> None:
    """Tell slaves of 5.x how far their master has flushed; a master ignores it.

    Asks for confirmation; without a terminal, --yes is required. Brokers that refuse or do not respond are
    reported, and the exit code is 3.
    """
    at_least_zero("OFFSET", offset)
    change_brokers(
        settings,
        how,
        "flush offset of a master",
        (f"set the flush offset of the master to {offset}", f"set the flush offset {offset}"),
        lambda admin, found: admin.replication.set_master_flush_offset(found, offset),
    )
