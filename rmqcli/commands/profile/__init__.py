"""`rmq profile`: named clusters."""

# ruff: noqa: F401, I001  help lists the commands in the order of these imports
from rmqcli.commands.profile.app import app as app
from rmqcli.commands.profile import add, edit, set, use, current, show, test, list, import_, remove
