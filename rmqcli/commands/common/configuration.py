"""The configuration of a server: a properties file, and options that override it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, TypeVar

from typer import Argument, Option

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.options import OptionGroup
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, confirm, end_partly
from rmqcli.grammar.values import by_name
from rmqcli.render.output import Output, note, warn
from rmqcli.render.table import Column, objects, show_rows

if TYPE_CHECKING:
    from rmqcli.broker.config import BrokerConfig, NamesrvConfig, ProxyConfig
    from rmqcli.broker.net.tls.acceptor import TlsAcceptor
    from rmqcli.client import Admin, TopicChange
    from rmqcli.plans.properties import Change, Tables


ConfigOption = Annotated[
    Path | None,
    Option("--config", metavar="FILE", help="Properties file with Java's names (broker.conf)."),
]
SetOption = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="Set a property, overriding the file; repeatable."),
]

Config = TypeVar("Config", "BrokerConfig", "NamesrvConfig", "ProxyConfig")


@dataclass(frozen=True, slots=True)
class Configuration(OptionGroup):
    """The configuration of a server: a file, and properties that override it."""

    config: ConfigOption = None
    properties: SetOption = None

    def of(
        self, kind: type[Config], defaults: Mapping[str, str] = {}, fixed: Mapping[str, str] = {}
    ) -> Config:
        """Return `defaults`, overridden by the file, by `--set`, and by `fixed` (dedicated options).

        Warn about unknown and unsupported properties; turn ConfigError into a usage error.
        """
        from rmqcli.broker.config import BrokerConfig, config_from_properties, ignored
        from rmqcli.broker.config.checks import unsupported
        from rmqcli.broker.config.tls import is_tls_name
        from rmqcli.broker.errors import ConfigError

        try:
            config, unknown = config_from_properties(kind, {**defaults, **self.given(), **fixed})
        except ConfigError as error:
            raise usage_error(str(error)) from error
        for name in unknown:
            if is_tls_name(name):
                continue
            warn(ignored(name))
        if isinstance(config, BrokerConfig):
            for text in unsupported(config):
                warn(text)
        return config

    def accepting(
        self, settings: Settings, config: BrokerConfig | NamesrvConfig, *, is_alone: bool = False
    ) -> TlsAcceptor:
        """Return the acceptor of TLS connections, configured by the TLS properties and the global options. It
        also secures connections to name servers. `is_alone`: the only name server is in this process.
        """
        from rmqcli.broker.net.tls.acceptor import TlsAcceptor

        options = settings.given
        given = {
            "tls.config.file": options.tls_config,
            "tls.enable": "true" if options.tls or getattr(config, "use_tls", False) else None,
            "tls.client.trustCertPath": options.tls_ca,
            "tls.client.certPath": options.tls_cert,
            "tls.client.keyPath": options.tls_key,
            "tls.client.authServer": "false" if options.tls_insecure else None,
        }
        entries = self.given() | {name: value for name, value in given.items() if value is not None}
        return TlsAcceptor(entries, is_alone=is_alone)

    def given(self) -> dict[str, str]:
        """Return the properties of the file, overridden by those of `--set`."""
        properties = by_name("--set", (_property(text) for text in self.properties or []))
        return (properties_of(self.config) if self.config else {}) | properties


def properties_of(path: Path) -> dict[str, str]:
    """Return the properties in a file. Raise CommandError if it cannot be read."""
    from rmqcli.broker.config import read_properties
    from rmqcli.broker.errors import ConfigError

    try:
        return read_properties(path)
    except ConfigError as error:
        raise CommandError(str(error), ExitCode.USAGE if path.exists() else ExitCode.NOT_FOUND) from error


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise usage_error(f"--set {text!r}: expected NAME=VALUE")
    return name.strip(), value


PatternsArgument = Annotated[
    list[str] | None,
    Argument(metavar="PROPERTY", help="Names of properties; `*` and `?` are wildcards."),
]
ValuesArgument = Annotated[
    list[str], Argument(metavar="NAME=VALUE", help="Properties to change, with Java's names.")
]
DryRunOption = Annotated[bool, Option("--dry-run", help="Show what would change; change nothing.")]

NAME = Column("PROPERTY", "property")
Read: TypeAlias = "Callable[[Admin, Failures], Awaitable[Tables]]"
Apply: TypeAlias = "Callable[[Admin, Mapping[str, str], Sequence[str]], Awaitable[TopicChange]]"


def values_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the properties of `NAME=VALUE` arguments; raise a usage error for other texts."""
    entries = [text.partition("=") for text in texts]
    for name, equals, _ in entries:
        if not equals or not name.strip():
            raise usage_error(f"{name!r}: expected NAME=VALUE")
    return by_name("property", ((name.strip(), value) for name, _, value in entries))


class Servers(NamedTuple):
    """The servers whose properties change: the column of their names, and functions to read and to write
    properties.

    `name` is the column of the properties. `fixed` is True if a server accepts only the names that it lists.
    """

    column: Column
    read: Read
    apply: Apply
    name: Column = NAME
    fixed: bool = True


def change_properties(
    settings: Settings, servers: Servers, values: Mapping[str, str], *, dry_run: bool, yes: bool
) -> None:
    """Show the changes, ask for confirmation, apply them and read the properties again. End as `end_partly`
    does.
    """
    from rmqcli.plans.properties import planned

    columns = [servers.column, servers.name, Column("OLD", "old"), Column("NEW", "new")]
    failures: Failures = {}
    changes = planned(_read(settings, servers, values, failures), values)
    if not settings.json:
        show_rows(settings, columns, changes, empty="nothing to change")
    elif dry_run:
        Output().json({"changes": objects(columns, changes), "dryRun": True})
    elif not changes:
        _report(columns, changes, (), failures)
    if dry_run or not changes:
        end_partly(failures)
        return
    confirm(settings, f"change {_of(changes)}?", yes=yes)
    changed, refused = with_admin(settings, lambda admin: _apply(admin, servers, values, changes))
    if settings.json:
        _report(columns, changes, changed, failures | refused)
    elif changed:
        note(f"changed on {', '.join(changed)}")
    end_partly(failures, refused, done=bool(changed))


async def _apply(
    admin: Admin, servers: Servers, values: Mapping[str, str], changes: Sequence[Change]
) -> tuple[list[str], dict[str, Exception | str]]:
    """Apply the changes. Return the servers that have the new values, and the errors of the others."""
    from rmqcli.client import ClientError
    from rmqcli.plans.properties import not_taken

    done = await servers.apply(admin, values, list(dict.fromkeys(change.server for change in changes)))
    after: Tables = {}
    try:
        after = await servers.read(admin, {})
    except ClientError as error:
        warn(f"the values could not be read again: {error}")
    left = not_taken([change for change in changes if change.server in done.brokers], after)
    return [label for label in done.brokers if label not in left], {**done.failures, **left}


def _read(settings: Settings, servers: Servers, values: Mapping[str, str], failures: Failures) -> Tables:
    from rmqcli.plans.properties import unlisted

    tables = with_admin(settings, lambda admin: servers.read(admin, failures))
    for name in unlisted(tables, values) if servers.fixed else ():
        warn(f"no server lists a property {name}: it has no value, or the servers do not know it")
    return tables


def _of(changes: Sequence[Change]) -> str:
    names = list(dict.fromkeys(change.name for change in changes))
    servers = list(dict.fromkeys(change.server for change in changes))
    return f"{', '.join(names)} on {', '.join(servers)}"


def _report(
    columns: Sequence[Column], changes: Sequence[Change], changed: Sequence[str], failures: Mapping[str, Any]
) -> None:
    texts = {name: str(error) for name, error in failures.items()}
    Output().json({"changes": objects(columns, changes), "changed": list(changed), "failures": texts})


def found_properties(tables: Tables, patterns: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the properties that match. Raise CommandError (4) if no server has one."""
    from rmqcli.plans.properties import selected

    found = selected(tables, patterns)
    if patterns and not any(found.values()):
        raise CommandError(f"no property matches {', '.join(patterns)}", ExitCode.NOT_FOUND)
    return found


def show_properties(settings: Settings, server: Column, tables: Tables, patterns: Sequence[str]) -> None:
    """Print the properties that match, one row per server and property. Raise as `found_properties` does."""
    rows = [
        [label, name, value]
        for label, table in found_properties(tables, patterns).items()
        for name, value in table.items()
    ]
    show_rows(settings, [server, NAME, Column("VALUE", "value")], rows)
