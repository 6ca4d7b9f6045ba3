"""`rmq controller`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rmqcli.cli.command import command, command_group
from rmqcli.cli.exit_codes import CommandError
from rmqcli.cli.options import BrokerArgument, Seats, YesOption, at_least_zero
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.applying import with_feature
from rmqcli.commands.common.configuration import (
    DryRunOption,
    PatternsArgument,
    Servers,
    ValuesArgument,
    change_properties,
    show_properties,
    values_of,
)
from rmqcli.commands.common.outcome import Failures, confirm, end_partly
from rmqcli.commands.common.watching import WatchOption, watched
from rmqcli.render.output import Output, note
from rmqcli.render.table import BROKER, Column

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange
    from rmqcli.codec.bodies.controller import ReplicasInfo
    from rmqcli.codec.headers.controller import ElectMasterResponseHeader

app = command_group("controller", "Show and change the controllers of 5.x, which elect masters.")
config_group = command_group("config", "Show and change the configuration of controllers.")
app.add_typer(config_group)

FEATURE = "controller"
CONTROLLER = Column("CONTROLLER", "controller", whole=True)
ControllerArgument = Annotated[
    str,
    Argument(metavar="CONTROLLER", help="Address of a controller, HOST:PORT; any of them knows the leader."),
]
ControllersArgument = Annotated[
    str, Argument(metavar="CONTROLLER", help="Addresses of controllers, HOST:PORT, separated by ';'.")
]


@command(
    app,
    "status",
    example="rmq controller status 10.0.0.1:9878",
    rows=Rows.LIST,
)
def status(controller: ControllerArgument, settings: Settings) -> None:
    """Show the group of a controller, its leader and all members.

    Piped output: controller, group, ID of the leader, its address, true for the leader itself, members
    separated by ';'.
    """
    from rmqcli.render import Column, show_rows

    found = with_feature(settings, FEATURE, lambda admin: admin.controllers.metadata(controller))
    columns = [
        CONTROLLER,
        Column("GROUP", "group"),
        Column("LEADER ID", "leaderId"),
        Column("LEADER", "leader", whole=True),
        Column("IS LEADER", "isLeader", minor=True),
        Column("MEMBERS", "members"),
    ]
    leader = [found.controller_leader_id, found.controller_leader_address, found.is_leader]
    show_rows(settings, columns, [[controller, found.group, *leader, found.peers]])


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


@command(
    app,
    "replicas",
    example="rmq controller replicas 10.0.0.1:9878 -b broker-a",
    rows=Rows.LIST,
)
def replicas(
    controller: ControllerArgument, settings: Settings, seats: Seats, watch: WatchOption = None
) -> None:
    """Show the replicas of brokers as the controller knows them: the master, and those in sync.

    Without --broker, all brokers of the name server, or of --cluster. Piped output: broker, ID, address,
    master or slave, true if in sync, true if alive, epoch of the master, epoch of the in-sync set.
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


IdArgument = Annotated[int, Argument(metavar="ID", help="ID of the replica, see replicas.")]
MasterClusterOption = Annotated[
    str | None,
    Option("--cluster", metavar="NAME", help="Cluster of the broker; default: from the name server."),
]


@command(app, "elect", example="rmq controller elect 10.0.0.1:9878 broker-a 2 --cluster DefaultCluster")
def elect(
    controller: ControllerArgument,
    broker: BrokerArgument,
    broker_id: IdArgument,
    settings: Settings,
    cluster: MasterClusterOption = None,
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


IdsArgument = Annotated[
    list[int] | None, Argument(metavar="[ID]", help="IDs of replicas; default: all of the broker.")
]
ClusterOption = Annotated[str | None, Option("--cluster", metavar="NAME", help="Cluster of the broker.")]
LivingOption = Annotated[bool, Option("--living", help="Remove replicas even if they are alive.")]


@command(
    app,
    "clean",
    example="""rmq controller clean 10.0.0.1:9878 broker-a 2 3
rmq controller clean 10.0.0.1:9878 broker-a --living --yes""",
)
def clean(
    controller: ControllerArgument,
    broker: BrokerArgument,
    settings: Settings,
    ids: IdsArgument = None,
    cluster: ClusterOption = None,
    living: LivingOption = False,
    yes: YesOption = False,
) -> None:
    """Remove replicas of a broker from the controllers.

    The leader refuses replicas that are alive, unless --living is given. Asks for confirmation; without a
    terminal, --yes is required.
    """
    what = f"{broker}:{','.join(map(str, ids))}" if ids else f"all replicas of {broker}"
    confirm(settings, f"forget {what}?", yes=yes, lost=[f"what the controllers know of {what}"])
    with_feature(
        settings,
        FEATURE,
        lambda admin: admin.controllers.forget(
            controller, broker, ids or (), cluster=cluster or "", living=living
        ),
    )
    if settings.json:
        Output().json({"brokerName": broker, "brokerIds": ids or []})
    else:
        note(f"the controllers have forgotten {what}")


@command(
    config_group,
    "show",
    example="rmq controller config show 10.0.0.1:9878 'controller*'",
    rows=Rows.LIST,
)
def show(controllers: ControllersArgument, settings: Settings, patterns: PatternsArgument = None) -> None:
    """Show the properties of controllers.

    Piped output: controller, property, value. Controllers that do not respond are reported, and the exit code
    is 3. Exit code 4 if no property has the name.
    """
    failures: Failures = {}
    tables = with_admin(settings, lambda admin: _read(admin, controllers, failures))
    show_properties(settings, CONTROLLER, tables, patterns or ())
    end_partly(failures)


@command(
    config_group,
    "set",
    example="rmq controller config set 10.0.0.1:9878 enableElectUncleanMaster=true --yes",
    rows=Rows.DOCUMENT,
)
def set_properties(
    controllers: ControllersArgument,
    values: ValuesArgument,
    settings: Settings,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Change properties of running controllers.

    Shows the old and new values and asks for confirmation; without a terminal, --yes is required. The values
    are read again afterwards: a controller that still has the old one is reported, and the exit code is 3, as
    for controllers that refuse or do not respond. Piped output: controller, property, old value, new value.
    """

    async def apply(admin: Admin, values: Mapping[str, str], labels: Sequence[str]) -> TopicChange:
        return await admin.controllers.set_config(labels, values)

    servers = Servers(CONTROLLER, lambda admin, failures: _read(admin, controllers, failures), apply)
    change_properties(settings, servers, values_of(values), dry_run=dry_run, yes=yes)


async def _read(admin: Admin, controllers: str, failures: Failures) -> dict[str, dict[str, str]]:
    from rmqcli.client import NotSupported
    from rmqcli.plans.brokers import unserved

    addresses = [one.strip() for one in controllers.split(";") if one.strip()]
    try:
        return await admin.controllers.configs(addresses, failures=failures)
    except NotSupported as error:
        raise CommandError(await unserved(admin, error, FEATURE)) from None
