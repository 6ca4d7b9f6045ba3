"""`rmq bench`."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.bench.app import app as app
from rmqcli.commands.bench import send, consume, e2e
