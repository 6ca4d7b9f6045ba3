"""`rmq controller elect`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.options import YesOption, at_least_zero
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker.app import BrokerArgument
from rmqcli.commands.common.changing import with_feature
from rmqcli.commands.common.outcome import confirm
from rmqcli.commands.controller.app import FEATURE, ControllerArgument, app
from rmqcli.render.output import Output, note

if TYPE_CHECKING:
    from codec.headers.controller import ElectMasterResponseHeader
    from rmqcli.client import Admin

IdArgument = Annotated[int, Argument(metavar="ID", help="ID of the replica, see replicas.")]
ClusterOption = Annotated[
    str | None,
    Option("--cluster", metavar="NAME", help="Cluster of the broker; default: the name server says."),
]


@command(app, "elect", example="rmq controller elect 10.0.0.1:9878 broker-a 2 --cluster DefaultCluster")
def elect(
    controller: ControllerArgument,
    broker: BrokerArgument,
    broker_id: IdArgument,
    settings: Settings,
    cluster: ClusterOption = None,
    yes: YesOption = False,
) -> None:
    """Make a replica the master of its broker.

    The leader refuses a replica that is not alive. Asks for confirmation; without a terminal, --yes is
    required.
    """
    at_least_zero("ID", broker_id)
    confirm(settings, f"make {broker}:{broker_id} the master?", yes=yes)

    async def main(admin: Admin) -> ElectMasterResponseHeader:
        of = cluster or ""
        if not of:
            clusters = (await admin.brokers.cluster_info()).cluster_addr_table
            of = next((name for name, brokers in clusters.items() if broker in brokers), "")
        return await admin.controllers.elect(controller, of, broker, broker_id)

    found = with_feature(settings, FEATURE, main)
    if settings.json:
        facts = {"masterBrokerId": found.master_broker_id, "masterAddress": found.master_address}
        epochs = {"masterEpoch": found.master_epoch, "syncStateSetEpoch": found.sync_state_set_epoch}
        Output().json({"brokerName": broker, **facts, **epochs})
    else:
        note(f"{broker}: the master is {found.master_address} (ID {found.master_broker_id})")
