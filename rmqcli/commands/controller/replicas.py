"""`rmq controller replicas`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqcli.cli.command import command
from rmqcli.cli.options import Seats
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.changing import with_feature
from rmqcli.commands.common.watching import WatchOption, watched
from rmqcli.commands.controller.app import FEATURE, ControllerArgument, app
from rmqcli.render.columns import BROKER
from rmqcli.render.table import Column

if TYPE_CHECKING:
    from codec.bodies.controller import ReplicasInfo
    from rmqcli.client import Admin

_COLUMNS = (
    BROKER,
    Column("ID", "brokerId", number=True),
    Column("ADDRESS", "address", whole=True),
    Column("ROLE", "role"),
    Column("IN SYNC", "inSync"),
    Column("ALIVE", "alive"),
    Column("MASTER EPOCH", "masterEpoch", number=True, minor=True),
    Column("SET EPOCH", "syncStateSetEpoch", number=True, minor=True),
)


@command(app, "replicas", example="rmq controller replicas 10.0.0.1:9878 -b broker-a")
def replicas(
    controller: ControllerArgument, settings: Settings, seats: Seats, watch: WatchOption = None
) -> None:
    """Show the replicas of brokers as the controller knows them: which are in sync, which is the master.

    Without --broker, all brokers of the name server, or of --cluster. Piped output: broker, ID, address,
    master or slave, true if in sync, true if alive, epoch of the master, epoch of the set in sync.
    """
    watched(settings, watch, lambda: _show(settings, controller, seats))


def _show(settings: Settings, controller: str, seats: Seats) -> None:
    from rmqcli.render import show_rows

    async def main(admin: Admin) -> dict[str, ReplicasInfo]:
        names = seats.broker or {
            label.partition(":")[0] for label in await admin.brokers.seats(cluster=seats.cluster)
        }
        return await admin.controllers.replicas(controller, sorted(names))

    found = with_feature(settings, FEATURE, main)
    rows = [row for name, info in sorted(found.items()) for row in _rows(name, info)]
    show_rows(settings, _COLUMNS, rows, empty="the controller knows none of these brokers")


def _rows(name: str, info: ReplicasInfo) -> list[list[Any]]:
    every = [(one, True) for one in info.in_sync_replicas]
    every += [(one, False) for one in info.not_in_sync_replicas]
    epochs = [info.master_epoch, info.sync_state_set_epoch]
    return [
        [
            name,
            one.broker_id,
            one.broker_address,
            "master" if one.broker_id == info.master_broker_id else "slave",
            in_sync,
            one.alive,
            *epochs,
        ]
        for one, in_sync in every
    ]
