"""`rmq broker container add` and `remove`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from rmqcli.cli.command import command
from rmqcli.cli.options import YesOption, at_least_zero
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker.app import BrokerArgument
from rmqcli.commands.broker.app import container as app
from rmqcli.commands.common.changing import with_feature
from rmqcli.commands.common.outcome import confirm
from rmqcli.render.output import Output, note

FEATURE = "container of brokers"
ContainerArgument = Annotated[str, Argument(metavar="CONTAINER", help="Address of the container, HOST:PORT.")]
PathArgument = Annotated[
    str, Argument(metavar="PATH", help="Configuration file of the broker on the container's machine.")
]
ClusterArgument = Annotated[str, Argument(metavar="CLUSTER", help="Cluster of the broker.")]
IdArgument = Annotated[int, Argument(metavar="[ID]", help="ID of the broker; 0 is the master.")]


@command(app, "add", example="rmq broker container add 10.0.0.1:10811 /conf/broker-b.conf --yes")
def add(container: ContainerArgument, path: PathArgument, settings: Settings, yes: YesOption = False) -> None:
    """Start a broker in a container of 5.x.

    Asks for confirmation; without a terminal, --yes is required.
    """
    confirm(settings, f"start the broker of {path} in the container {container}?", yes=yes)
    with_feature(settings, FEATURE, lambda admin: admin.upkeep.add_broker(container, path))
    _done(settings, container, f"started the broker of {path} in {container}")


@command(app, "remove", example="rmq broker container remove 10.0.0.1:10811 DefaultCluster broker-b 0 --yes")
def remove(
    container: ContainerArgument,
    cluster: ClusterArgument,
    broker: BrokerArgument,
    settings: Settings,
    broker_id: IdArgument = 0,
    yes: YesOption = False,
) -> None:
    """Stop a broker of a container of 5.x. Its files stay.

    Asks for confirmation; without a terminal, --yes is required.
    """
    at_least_zero("ID", broker_id)
    confirm(settings, f"stop {broker}:{broker_id} in the container {container}?", yes=yes)
    with_feature(
        settings, FEATURE, lambda admin: admin.upkeep.remove_broker(container, cluster, broker, broker_id)
    )
    _done(settings, container, f"stopped {broker}:{broker_id} in {container}")


def _done(settings: Settings, container: str, text: str) -> None:
    if settings.json:
        Output().json({"container": container})
    else:
        note(text)
