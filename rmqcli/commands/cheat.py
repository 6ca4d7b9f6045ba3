"""`rmq cheat`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from rmqcli.cli.command import command, single_command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings

app = single_command()

SubjectArgument = Annotated[
    str | None,
    Argument(metavar="[SUBJECT]", help="Subject of the examples; default: list the subjects."),
]


@command(
    app,
    "cheat",
    example="rmq cheat\nrmq cheat offsets",
    rows=Rows.LIST,
)
def cheat(settings: Settings, subject: SubjectArgument = None) -> None:
    """Show examples of commands by subject, one per line.

    They use the topic orders and the group billing. Piped output: the command and what it does; without a
    subject, the names of the subjects and what they are about.
    """
    from rmqcli.cli import help_topics as sheet
    from rmqcli.render import Column, show_rows

    if subject is None:
        found = [(name, one.about) for name, one in sheet.subjects().items()]
        show_rows(settings, [Column("SUBJECT", "subject", whole=True), Column("ABOUT", "about")], found)
    else:
        columns = [Column("COMMAND", "command", whole=True), Column("WHAT IT DOES", "text")]
        show_rows(settings, columns, sheet.subject(subject).examples)
