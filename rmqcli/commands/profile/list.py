"""`rmq profile list`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.profiles import load_profiles, profiles_path
from rmqcli.cli.settings import Settings
from rmqcli.commands.profile.app import app, show_profiles


@command(app, "list", example="rmq profile list")
def list_profiles(settings: Settings) -> None:
    """List the profiles. The profile `default` is used when nothing else names a cluster."""
    show_profiles(settings, load_profiles().items(), empty=f"no profiles in {profiles_path()}")
