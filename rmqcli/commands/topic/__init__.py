"""`rmq topic`."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.topic.app import app as app
from rmqcli.commands.topic import (
    list,
    describe,
    route,
    stats,
    top,
    entries,
    allocate,
    create,
    update,
    apply,
    delete,
)
from rmqcli.commands.topic import order
