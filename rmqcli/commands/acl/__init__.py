"""`rmq acl`."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.acl.app import app as app
from rmqcli.commands.acl import accounts, users, policies, copying
