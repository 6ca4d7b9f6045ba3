"""`rmq group`."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.group.app import app as app
from rmqcli.commands.group import (
    list,
    describe,
    settings,
    create,
    update,
    apply,
    mode,
    delete,
    clients,
    status,
    check,
    deliver,
)
