"""Finds the cluster of a command line: options, environment variables and profiles.

The first of these that is set names the name servers: `--namesrv`, `--profile`, RMQ_NAMESRV, NAMESRV_ADDR,
the profile named by RMQ_PROFILE, the one chosen by `rmq profile use`, the profile `default`, 127.0.0.1:9876.

All settings of a profile take effect if it supplies the name servers, or if `--profile` names it; options of
the command line override it. A protected profile protects its name servers no matter how they were given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.profiles import load_file, load_profiles, profile, profile_in
from rmqcli.codec.ids import DEFAULT_NAMESRV, DEFAULT_NAMESRV_PORT, join_address, split_address
from rmqcli.grammar.values import by_name

if TYPE_CHECKING:
    from rmqcli.cli.profile_values import Profile

VARIABLES = ("RMQ_NAMESRV", "NAMESRV_ADDR")
_SCHEME = "http://"
_BETWEEN = re.compile(r"[;,]")


class Endpoint(NamedTuple):
    """The name servers of a cluster, the source that named them, and the profile in effect with its name."""

    namesrv: str
    source: str
    name: str | None = None
    profile: Profile | None = None

    @property
    def label(self) -> str:
        """The cluster as prompts name it: `prod (ns1:9876)`, or the addresses alone."""
        return self.namesrv if self.name is None else f"{self.name} ({self.namesrv})"


def resolve(namesrv: str | None = None, profile_name: str | None = None) -> Endpoint:
    """Return the cluster, given the values of `--namesrv` and `--profile`.

    Raise CommandError if the profile does not exist or the profiles file is malformed, and a usage error for
    a malformed address.
    """
    found = next(_candidates(namesrv, profile_name))
    check_addresses(found.namesrv, found.source)
    return found


def environment_name_servers() -> str | None:
    """Return the value of RMQ_NAMESRV or NAMESRV_ADDR."""
    return next((value for name in VARIABLES if (value := os.environ.get(name))), None)


def _candidates(namesrv: str | None, profile_name: str | None) -> Iterator[Endpoint]:
    chosen = profile(profile_name) if profile_name else None
    if namesrv:
        yield Endpoint(namesrv, "--namesrv", profile_name or None, chosen)
    if chosen is not None:
        yield Endpoint(chosen.namesrv, f"profile {profile_name}", profile_name, chosen)
    for variable in VARIABLES:
        if value := os.environ.get(variable):
            yield Endpoint(value, variable)
    file = load_file()
    for name in (
        os.environ.get("RMQ_PROFILE"),
        file.current,
        "default" if "default" in file.profiles else None,
    ):
        if name:
            yield Endpoint((found := profile_in(file, name)).namesrv, f"profile {name}", name, found)
    yield Endpoint(DEFAULT_NAMESRV, "the default")


def check_addresses(text: str, source: str) -> None:
    """Raise a usage error that names `source` unless the text is a list of addresses."""
    for part in filter(None, (piece.strip() for piece in _BETWEEN.split(text))):
        if len(part.split()) > 1:
            raise usage_error(
                f"{source}: {part!r} is not an address: a name has no blanks; separate with ';'"
            )
        try:
            _normal(part)
        except ValueError as error:
            raise usage_error(f"{source}: {error}") from None


def _normal(address: str) -> str:
    return join_address(*split_address(address.removeprefix(_SCHEME), DEFAULT_NAMESRV_PORT))


def _addresses(text: str) -> set[str]:
    return {_normal(part.strip()) for part in _BETWEEN.split(text) if part.strip()}


def protecting(endpoint: Endpoint) -> str | None:
    """Return the name of a protected profile that has one of these name servers."""
    if endpoint.profile is not None and endpoint.profile.protected:
        return endpoint.name
    wanted = _addresses(endpoint.namesrv)
    protected = {name: one for name, one in load_profiles().items() if one.protected}
    return next((name for name, one in protected.items() if wanted & _addresses(one.namesrv)), None)


def parse_map(rules: Sequence[str]) -> dict[str, str]:
    """Return the targets of `--map FROM=TO` by FROM. Raise a usage error for another form."""
    pairs = {rule: rule.partition("=") for rule in rules}
    for rule, (source, _, target) in pairs.items():
        if not source.strip() or not target.strip() or "=" in target:
            raise usage_error(f"--map {rule!r}: expected HOST:PORT=HOST:PORT")
    return by_name("--map", ((source.strip(), target.strip()) for source, _, target in pairs.values()))
