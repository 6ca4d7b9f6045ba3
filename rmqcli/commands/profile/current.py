"""`rmq profile current`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.profile.app import app


@command(app, "current", example="rmq profile current\nrmq --profile prod profile current --json")
def current(settings: Settings) -> None:
    """Show the cluster that commands use, and what named it.

    Piped output: profile (empty without one), name servers, source.
    """
    from rmqcli.render import Column, show_rows

    found = settings.endpoint
    columns = [Column("NAME", "name"), Column("NAME SERVERS", "namesrv"), Column("SOURCE", "source")]
    show_rows(settings, columns, [[found.name, found.namesrv, found.source]])
