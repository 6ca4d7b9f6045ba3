"""`rmq metrics`."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.metrics.app import app as app
from rmqcli.commands.metrics import serve, show
