"""The values of the global options of a command line."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Given:
    """Global options given so far, by level of the command line; None: not given."""

    namesrv: str | None = None
    profile: str | None = None
    json: bool | None = None
    no_color: bool | None = None
    verbose: bool | None = None
    timeout: float | None = None

    def overlaid(self, values: dict[str, Any]) -> Given:
        """Return these options, replaced by those of `values` that are not None."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        return Given(**known | {name: value for name, value in values.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Settings:
    """The resolved global options. `timeout` is in seconds; None leaves it to the client library."""

    given: Given = Given()

    @property
    def json(self) -> bool:
        return bool(self.given.json)

    @property
    def verbose(self) -> bool:
        return bool(self.given.verbose)

    @property
    def terminal(self) -> bool:
        """True if standard output is a terminal."""
        return sys.stdout.isatty()

    @property
    def color(self) -> bool:
        return self.terminal and not self.given.no_color and not os.environ.get("NO_COLOR")

    @property
    def namesrv(self) -> str:
        """Addresses of the name servers, separated by semicolons."""
        from rmqcli.cli.endpoints import name_servers

        return name_servers(self.given.namesrv, self.given.profile)

    @property
    def client_options(self) -> dict[str, Any]:
        """Keyword arguments of `PullConsumer` and `Admin`; names on the command line get no namespace."""
        timeout = {} if self.given.timeout is None else {"timeout": self.given.timeout}
        return {"namesrv": self.namesrv, "namespace": ""} | timeout

    @property
    def producer_options(self) -> dict[str, Any]:
        """Keyword arguments of `Producer`; the timeout covers all attempts to send a message."""
        timeout = self.given.timeout
        return self.client_options | ({} if timeout is None else {"send_timeout": timeout})
