"""`rmq check`."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.check.app import app as app
from rmqcli.commands.check import lag, brokers, disk, dlq, send
