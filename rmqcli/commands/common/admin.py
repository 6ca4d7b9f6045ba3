"""The administration calls of a command."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings

if TYPE_CHECKING:
    from rmqcli.client import Admin

T = TypeVar("T")
PATIENCE_S = 2.5
"""The time for which a command may wait for a server without a word."""


def with_admin(settings: Settings, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Run `work` with an Admin that has the options of the command line, and return its result."""

    async def main() -> T:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            if sys.stderr.isatty() and not settings.json:
                admin.instance.start(lambda: _tell_who_is_silent(admin), name="silent servers")
            return await work(admin)

    return run_async(main)


async def _tell_who_is_silent(admin: Admin) -> None:
    """Name every server once that said nothing between two looks at it."""
    import trio

    from rmqcli.render.output import warn

    told: set[str] = set()
    former: dict[str, int] = {}
    while True:
        await trio.sleep(PATIENCE_S / 2)
        now = admin.instance.pool.waiting
        for address in sorted(address for address, heard in now.items() if former.get(address) == heard):
            if address not in told:
                warn(f"waiting for {address}, which has not answered yet")
                told.add(address)
        former = now
