"""`rmq offsets`."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.offsets.app import app as app
from rmqcli.commands.offsets import show, reset, clone
