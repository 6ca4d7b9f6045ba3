"""The values of the global options of a command line."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqcli.cli.exit_codes import usage_error

if TYPE_CHECKING:
    from rmqcli.cli.endpoints import Endpoint
    from rmqcli.client import Tls
    from rmqcli.render.table import RowForm

COLORS = frozenset((None, "auto", "always", "never"))


class Given(NamedTuple):
    """Global options given so far, by level of the command line; None: not given.

    `profile_account` is not an option: the account of the profile comes before that of the environment.
    """

    namesrv: str | None = None
    profile: str | None = None
    json: bool | None = None
    color: str | None = None
    verbose: bool | None = None
    quiet: bool | None = None
    timeout: float | None = None
    map: tuple[str, ...] | None = None
    access_key: str | None = None
    secret_key_file: str | None = None
    secret_command: str | None = None
    confirm: str | None = None
    columns: tuple[str, ...] | None = None
    sort: tuple[str, ...] | None = None
    header: bool | None = None
    csv: bool | None = None
    tls: bool | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_insecure: bool | None = None
    tls_config: str | None = None
    profile_account: bool | None = None

    def overlaid(self, values: dict[str, Any]) -> Given:
        """Return these options, replaced by those of `values` that are given; raise a usage error for an
        unknown --color, and for two forms of output.
        """
        if values.get("color") not in COLORS:
            raise usage_error(f"--color {values['color']}: expected auto, always or never")
        given = {name: value for name, value in values.items() if value is not None and value != ()}
        found = self._replace(**given)
        wrong = [f"--{name}" for name in ("csv", "header") if getattr(found, name)] if found.json else []
        if wrong:
            raise usage_error(f"{wrong[0]} and --json cannot be combined: JSON has its own names")
        return found


def _names(lists: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the names in comma-separated lists."""
    return tuple(name.strip() for text in lists or () for name in text.split(",") if name.strip())


class Settings(NamedTuple):
    """The resolved global options. `timeout` is in seconds; None leaves it to the client library."""

    given: Given = Given()

    @property
    def json(self) -> bool:
        return bool(self.given.json)

    @property
    def verbose(self) -> bool:
        return bool(self.given.verbose)

    @property
    def tty(self) -> bool:
        """True if standard output is a terminal."""
        return sys.stdout.isatty()

    @property
    def terminal(self) -> bool:
        """True if a terminal shows results formatted for people: no columns, order or CSV are requested."""
        return self.tty and not self.rows.chosen

    @property
    def table(self) -> bool:
        """True if rows are shown as a table."""
        return self.terminal or (self.tty and not self.rows.csv)

    @property
    def rows(self) -> RowForm:
        """The columns and the order of rows, and the form of their lines."""
        from rmqcli.render.table import ALL, RowForm

        given = self.given
        if (given.columns, given.sort, given.header, given.csv) == (None,) * 4:
            return ALL
        return RowForm(_names(given.columns), _names(given.sort), bool(given.header), bool(given.csv))

    @property
    def color(self) -> bool:
        """True if text for people is colored; tab-separated lines and JSON never are."""
        if self.given.color in ("always", "never"):
            return self.given.color == "always"
        return self.tty and not os.environ.get("NO_COLOR")

    @property
    def endpoint(self) -> Endpoint:
        """The cluster of this command line and the profile in effect."""
        from rmqcli.cli.endpoints import resolve

        return resolve(self.given.namesrv, self.given.profile)

    @property
    def namesrv(self) -> str:
        """Addresses of the name servers, separated by semicolons."""
        return self.endpoint.namesrv

    @property
    def endpoint_words(self) -> str:
        """The options that name this cluster in a command to run later, perhaps elsewhere."""
        import shlex

        found = self.endpoint
        profile = [] if found.name is None else ["--profile", found.name]
        servers = (
            []
            if found.profile is not None and found.profile.namesrv == found.namesrv
            else ["-n", found.namesrv]
        )
        maps = [word for rule in self.given.map or () for word in ("--map", rule)]
        names = ("access_key", "secret_key_file", "secret_command")
        keys = {f"--{name.replace('_', '-')}": getattr(self.given, name) for name in names}
        account = [word for name, value in keys.items() if value for word in (name, value)]
        return shlex.join([*servers, *profile, *maps, *account, *self._tls_words])

    @property
    def _tls_words(self) -> list[str]:
        """The options of TLS that were given."""
        given = self.given
        switches = {"--tls": given.tls, "--no-tls": given.tls is False, "--tls-insecure": given.tls_insecure}
        values = {
            "ca": given.tls_ca,
            "cert": given.tls_cert,
            "key": given.tls_key,
            "config": given.tls_config,
        }
        words = [name for name, on in switches.items() if on]
        return words + [word for name, value in values.items() if value for word in (f"--tls-{name}", value)]

    @property
    def client_options(self) -> dict[str, Any]:
        """Keyword arguments of `PullConsumer` and `Admin`; names on the command line get no namespace."""
        from rmqcli.cli.account import account

        credentials = account(self.given, self.endpoint)
        options = self.server_options
        if credentials is None:
            return options
        if self.verbose:
            from rmqcli.render.output import note

            note(f"requests are signed as {credentials.access_key}")
        return options | {"credentials": credentials}

    @property
    def server_options(self) -> dict[str, Any]:
        """`client_options` without the account, whose secret may require a prompt."""
        endpoint = self.endpoint
        if self.verbose:
            from rmqcli.render.output import note

            note(f"name servers {endpoint.namesrv} (from {endpoint.source})")
        given = {
            "timeout": self.timeout(endpoint),
            "address_map": self.address_map(endpoint) or None,
            "tls": self.tls(endpoint),
        }
        return {"namesrv": endpoint.namesrv, "namespace": ""} | {
            name: value for name, value in given.items() if value is not None
        }

    @property
    def producer_options(self) -> dict[str, Any]:
        """Keyword arguments of `Producer`; the timeout covers all attempts to send a message."""
        options = self.client_options
        return options | ({"send_timeout": options["timeout"]} if "timeout" in options else {})

    def timeout(self, endpoint: Endpoint) -> float | None:
        """Seconds for a request by `--timeout` or the profile; None leaves them to the client library."""
        profile = endpoint.profile
        return self.given.timeout if self.given.timeout or profile is None else profile.timeout

    def tls(self, endpoint: Endpoint) -> Tls | None:
        """Return the TLS settings of connections, None for plain ones. Warn once if servers are not checked."""
        from rmqcli.cli.tls import is_unchecked, tls_of, warn_unchecked

        found = tls_of(self.given, endpoint.profile)
        if is_unchecked(self.given, endpoint.profile, found):
            warn_unchecked()
        return found

    def group(self, given: str | None) -> str | None:
        """Return the consumer group of a command: that of its option, otherwise that of the profile."""
        profile = self.endpoint.profile if given is None else None
        return given if profile is None else profile.group

    def address_map(self, endpoint: Endpoint) -> dict[str, str]:
        """Return replacement addresses for connections: the rules of the profile, then those of `--map`."""
        from rmqcli.cli.endpoints import parse_map

        known = {} if endpoint.profile is None else endpoint.profile.map
        return known | parse_map(self.given.map or ())
