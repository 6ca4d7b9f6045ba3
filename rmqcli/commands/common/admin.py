"""The administration calls of a command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings

if TYPE_CHECKING:
    from rmqcli.client import Admin

T = TypeVar("T")


def with_admin(settings: Settings, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Run `work` with an Admin that has the options of the command line, and return its result."""

    async def main() -> T:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            return await work(admin)

    return run_async(main)
