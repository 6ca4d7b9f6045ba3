"""`rmq broker`."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.broker.app import app as app
from rmqcli.commands.broker import run, status, lag, ping, drain
from rmqcli.commands.broker import config_show, config_set, config_diff, clean
from rmqcli.commands.broker import ha, cold, rocksdb, container
