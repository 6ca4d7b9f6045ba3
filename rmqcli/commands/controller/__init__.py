"""`rmq controller`."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.controller.app import app as app
from rmqcli.commands.controller import status, replicas, elect, clean, config
