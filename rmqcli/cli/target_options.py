"""Options that name a second cluster, the target of a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import OptionGroup
from rmqcli.cli.settings import Settings


@dataclass(frozen=True, slots=True)
class ToCluster(OptionGroup):
    """The cluster of the target; without these options, that of the source."""

    to_namesrv: Annotated[
        str | None, Option("--to-namesrv", metavar="HOST:PORT", help="Name servers of the target.")
    ] = None
    to_profile: Annotated[
        str | None, Option("--to-profile", metavar="NAME", help="Named cluster of the target.")
    ] = None

    @property
    def is_given(self) -> bool:
        return self.to_namesrv is not None or self.to_profile is not None

    def settings(self, source: Settings) -> Settings:
        """Return the settings of the target.

        Account, TLS and addresses of the command line are those of the source if a profile has those of the
        target.
        """
        if not self.is_given:
            return source
        if "" in (self.to_namesrv, self.to_profile):
            raise usage_error("--to-namesrv and --to-profile: the target has no name")
        given = source.given._replace(
            namesrv=self.to_namesrv,
            profile=self.to_profile,
            profile_account=True,
            **dict.fromkeys(("access_key", "secret_key_file", "secret_command")),
        )
        if self.to_profile is not None:
            own = ("map", "tls", "tls_ca", "tls_cert", "tls_key", "tls_insecure", "tls_config")
            given = given._replace(**dict.fromkeys(own))
        return Settings(given)
