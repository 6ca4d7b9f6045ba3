"""The groups `rmq acl`, `rmq acl user` and `rmq acl policy`, and options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from rmqcli.cli.command import command_group

app = command_group("acl", "Show and change access control: accounts of 4.9, users and policies of 5.x.")
user = command_group("user", "Show and change the users of brokers of 5.x.")
policy = command_group("policy", "Show and change the permissions of users of brokers of 5.x.")
app.add_typer(user)
app.add_typer(policy)

ACCOUNTS = "accounts of 4.9"
USERS = "users of 5.x"
"""Features that a broker lacks if it does not serve the requests."""

UserArgument = Annotated[str, Argument(metavar="USER", help="Name of the user.")]
UsersArgument = Annotated[
    list[str] | None, Argument(metavar="USER", help="Names of the users; default: all of them.")
]
PasswordOption = Annotated[
    Path | None,
    Option("--password-file", metavar="FILE", help="File whose first line is the password; - is stdin."),
]
FromOption = Annotated[str, Option("--from", metavar="BROKER", help="Broker to copy from.")]
ToOption = Annotated[str, Option("--to", metavar="BROKER", help="Broker to copy to.")]
