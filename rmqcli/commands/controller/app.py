"""The groups `rmq controller` and `rmq controller config`, and arguments that commands share."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from rmqcli.cli.command import command_group
from rmqcli.render.table import Column

app = command_group("controller", "Show and change the controllers of 5.x, which elect masters.")
config = command_group("config", "Show and change the configuration of controllers.")
app.add_typer(config)

FEATURE = "controller"
CONTROLLER = Column("CONTROLLER", "controller", whole=True)
ControllerArgument = Annotated[
    str,
    Argument(metavar="CONTROLLER", help="Address of a controller, HOST:PORT; any of them knows the leader."),
]
ControllersArgument = Annotated[
    str, Argument(metavar="CONTROLLER", help="Addresses of controllers, HOST:PORT, separated by ';'.")
]
