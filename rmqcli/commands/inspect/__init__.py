"""`rmq inspect`: store files without a broker."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.inspect.app import app as app
from rmqcli.commands.inspect import commitlog, consumequeue, store, checkpoint, index, offsets, topics, groups
from rmqcli.commands.inspect import delay, transactions, verify, rebuild, salvage
