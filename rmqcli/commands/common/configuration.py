"""The configuration of a server: a properties file, and options that override it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from typer import Option

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.option_groups import OptionGroup
from rmqcli.cli.settings import Settings
from rmqcli.grammar.values import by_name
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from broker.config import BrokerConfig, NamesrvConfig
    from broker.net.tls.acceptor import TlsAcceptor

ConfigOption = Annotated[
    Path | None,
    Option("--config", metavar="FILE", help="Properties file with Java's names (broker.conf)."),
]
SetOption = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="Set a property, overriding the file; repeatable."),
]

Config = TypeVar("Config", "BrokerConfig", "NamesrvConfig")


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
        from broker.config import BrokerConfig, config_from_properties, ignored
        from broker.config.checks import unsupported
        from broker.config.tls import is_tls_name
        from broker.errors import ConfigError

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
        """Return what accepts TLS connections, and secures those to name servers, by the properties of TLS and the
        global options. `is_alone`: the only name server is in this process.
        """
        from broker.net.tls.acceptor import TlsAcceptor

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
    """Return the properties in a file; CommandError if it cannot be read."""
    from broker.config import read_properties
    from broker.errors import ConfigError

    try:
        return read_properties(path)
    except ConfigError as error:
        raise CommandError(str(error), ExitCode.USAGE if path.exists() else ExitCode.NOT_FOUND) from error


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise usage_error(f"--set {text!r}: expected NAME=VALUE")
    return name.strip(), value
