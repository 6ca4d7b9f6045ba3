"""`rmq cluster`."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.cluster.app import app as app
from rmqcli.commands.cluster import list, producers, dump, diff, apply
