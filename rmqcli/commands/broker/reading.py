"""Calls of `Admin` that several commands of `rmq broker` make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.cli.options import Seats
from rmqcli.commands.common.outcome import Failures

if TYPE_CHECKING:
    from rmqcli.client import Admin


async def read_configs(admin: Admin, seats: Seats, failures: Failures) -> dict[str, dict[str, str]]:
    """Return the properties of the brokers by label."""
    return await admin.brokers.configs(await admin.brokers.seats(**seats.named), failures=failures)
