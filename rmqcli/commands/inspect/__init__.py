"""`rmq inspect`: store files without a broker. Help lists the commands in the order of these imports."""

from __future__ import annotations

import rmqcli.commands.inspect.commitlog  # isort: skip
import rmqcli.commands.inspect.consumequeue  # isort: skip
import rmqcli.commands.inspect.store  # isort: skip
import rmqcli.commands.inspect.checkpoint  # isort: skip
import rmqcli.commands.inspect.index  # isort: skip
import rmqcli.commands.inspect.offsets  # isort: skip
import rmqcli.commands.inspect.topics  # isort: skip
import rmqcli.commands.inspect.groups  # isort: skip
import rmqcli.commands.inspect.delay  # isort: skip
import rmqcli.commands.inspect.transactions  # isort: skip
import rmqcli.commands.inspect.verify  # isort: skip
import rmqcli.commands.inspect.rebuild  # isort: skip
import rmqcli.commands.inspect.salvage  # isort: skip  # noqa: F401
from rmqcli.commands.inspect.app import app as app
