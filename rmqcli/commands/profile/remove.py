"""`rmq profile remove`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.profiles import load_file, profile_in, save_file
from rmqcli.cli.settings import Settings
from rmqcli.commands.profile.app import NameArgument, app


@command(app, "remove", example="rmq profile remove prod")
def remove(name: NameArgument, settings: Settings) -> None:
    """Remove a profile."""
    from msgspec.structs import replace

    file = load_file()
    profile_in(file, name)
    kept = {key: value for key, value in file.profiles.items() if key != name}
    save_file(replace(file, profiles=kept, current=None if file.current == name else file.current))
