"""`rmq profile test`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.profile.app import app
from rmqcli.commands.profile.show import SomeNameArgument


@command(app, "test", example="rmq profile test prod")
def test(settings: Settings, name: SomeNameArgument = None) -> None:
    """Examine the cluster of a profile, as `rmq doctor` does."""
    from rmqcli.commands.doctor import run

    given = settings.given if name is None else settings.given.overlaid({"profile": name})
    run(Settings(given))
