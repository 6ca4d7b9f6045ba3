"""`rmq controller clean`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.options import YesOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker.app import BrokerArgument
from rmqcli.commands.common.changing import with_feature
from rmqcli.commands.common.outcome import confirm
from rmqcli.commands.controller.app import FEATURE, ControllerArgument, app
from rmqcli.render.output import Output, note

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
    """Make the controllers forget replicas of a broker.

    The leader refuses replicas that are alive, unless --living. Asks for confirmation; without a terminal,
    --yes is required.
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
