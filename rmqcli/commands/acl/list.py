"""`rmq acl list`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.acl.app import app

PathsArgument = Annotated[
    list[Path], Argument(metavar="PATH", help="Files of accounts, or the folder conf of a broker.")
]


@command(
    app,
    "list",
    example="rmq acl list $ROCKETMQ_HOME/conf\nrmq acl list plain_acl.yml --json",
    rows=Rows.LIST,
)
def list_accounts(paths: PathsArgument, settings: Settings) -> None:
    """List the accounts in files of 4.9, without their secret keys. No broker tells its accounts.

    Piped output: access key, true for an administrator, permissions on topics, on groups, on other topics, on
    other groups, white address, file. Of accounts with the same key only the one in force is listed.
    """
    from rmqcli.flows.permitting import account_rows, read_account_files
    from rmqcli.render import Column, show_rows

    columns = [
        Column("ACCESS KEY", "accessKey"),
        Column("ADMIN", "admin", lambda yes: "yes" if yes else ""),
        Column("TOPICS", "topicPerms"),
        Column("GROUPS", "groupPerms"),
        Column("OTHER TOPICS", "defaultTopicPerm"),
        Column("OTHER GROUPS", "defaultGroupPerm"),
        Column("WHITE ADDRESS", "whiteRemoteAddress"),
        Column("FILE", "file", whole=True),
    ]
    show_rows(settings, columns, account_rows(read_account_files(paths)), empty="no accounts")
