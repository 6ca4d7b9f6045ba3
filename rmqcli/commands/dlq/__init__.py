"""`rmq dlq`: dead letters."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.dlq.app import app as app
from rmqcli.commands.dlq import list, show, redrive, drop
