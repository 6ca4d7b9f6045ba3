"""`rmq namesrv`."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.namesrv.app import app as app
from rmqcli.commands.namesrv import run, config, kv
