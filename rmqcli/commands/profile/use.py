"""`rmq profile use`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.endpoints import VARIABLES, environment_name_servers
from rmqcli.cli.profiles import load_file, profile_in, save_file
from rmqcli.cli.settings import Settings
from rmqcli.commands.profile.app import NameArgument, app
from rmqcli.render.output import warn


@command(app, "use", example="rmq profile use prod\nrmq profile current")
def use(name: NameArgument, settings: Settings) -> None:
    """Use a profile from now on, unless an option or an environment variable names another cluster."""
    from msgspec.structs import replace

    file = load_file()
    profile_in(file, name)
    save_file(replace(file, current=name))
    if environment_name_servers() is not None:
        warn(f"{' or '.join(VARIABLES)} is set and wins over the profile: unset it to use {name}")
