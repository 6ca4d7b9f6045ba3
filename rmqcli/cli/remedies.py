"""Remedies for an error: names similar to one that does not exist, and the source of an address.

Names come from the cluster, which is queried once more, with a short time limit; without a reply, there is no
suggestion.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rmqcli.cli.settings import Settings
from rmqcli.state import NO_HOME

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.doctor.survey import Place

T = TypeVar("T")
SUGGESTIONS = 3
LIKE = 0.75
"""The share of common characters from which names are similar (difflib's ratio)."""
SECONDS = 2.0
"""Time limit of the query for names: nobody waits longer for a suggestion."""


class Remedy(NamedTuple):
    """The remedy as the end of a sentence, and the suggested names, likeliest first."""

    text: str = ""
    names: tuple[str, ...] = ()


def close_names(name: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the known names that are similar to a name, likeliest first, ignoring case."""
    import difflib

    folded = {one.casefold(): one for one in known}
    found = difflib.get_close_matches(name.casefold(), folded, SUGGESTIONS, LIKE)
    return tuple(folded[one] for one in found if folded[one] != name)


def did_you_mean(names: Collection[str]) -> str:
    """Return "; did you mean a or b?", or "" without names."""
    return f"; did you mean {' or '.join(names)}?" if names else ""


def remedy(error: BaseException, settings: Settings) -> Remedy:
    """Return the remedy for an error of any layer, empty if there is none. Never raises."""
    try:
        return _remedy(error, settings)
    except (Exception, KeyboardInterrupt):  # an error here must not hide the first one
        return Remedy()


def _remedy(error: Any, settings: Settings) -> Remedy:
    if type(error).__name__ == "NoBrokers":
        from rmqcli.doctor.brokers import UNREGISTERED

        return Remedy(f"; {UNREGISTERED}")
    if text := reaching_remedy(error, settings):
        return Remedy(text)
    if text := home_remedy(error) or address_remedy(error, settings) or account_remedy(error, settings):
        return Remedy(text)
    missing = getattr(error, "missing", None)
    if missing is None:
        return Remedy()
    kind, name = missing
    names = close_names(name, _known(kind, settings) if error.known is None else error.known)
    lost = _lost_brokers(settings) if kind == "topic" else ""
    return Remedy(did_you_mean(names) + lost, names)


def reaching_remedy(error: BaseException, settings: Settings) -> str:
    """Return the remedy that `rmq doctor` gives for an unreachable server."""
    from rmqcli.client.wire.addresses import name_servers
    from rmqcli.doctor.reaching import remedy_of

    # Errors with messages in doubt have their own text: the outcome matters more than the cause.
    if getattr(error, "maybe_stored", "") or not hasattr(error, "address"):
        return ""
    text = remedy_of(error, name_servers(settings.namesrv))
    return f"; {text}" if text else ""


def home_remedy(error: BaseException) -> str:
    """Return text that names the variables to set if this user has no home folder."""
    at = str(getattr(error, "filename", None) or "")
    if not at.startswith(str(NO_HOME)):
        return ""
    return "; this user has no home folder: set HOME, or RMQ_CONFIG_DIR and RMQ_STATE_DIR"


def address_remedy(error: BaseException, settings: Settings) -> str:
    """Return the source of an unreachable name server's address, and the ways to give another one."""
    if type(error).__name__ != "NoNameServer":
        return ""
    endpoint = settings.endpoint
    from rmqcli.client.wire.addresses import name_servers
    from rmqcli.doctor.reaching import is_local

    known = name_servers(endpoint.namesrv)
    if not set(getattr(error, "addresses", known)) <= set(known):
        return ""  # of another cluster, which an option of the command names
    local = all(map(is_local, known))
    start = "start a broker with `rmq up`, or " if local else ""
    return f" (address from {endpoint.source}); {start}name a cluster with -n HOST:PORT or --profile NAME"


def account_remedy(error: BaseException, settings: Settings) -> str:
    """Return the account that access control refused, or the way to name one."""
    if not getattr(error, "by_account", False):
        return ""
    from rmqcli.cli.account import access_key

    key, _ = access_key(settings.given, settings.endpoint)
    return f" (signed as {key})" if key else "; name an account with --access-key: rmq help account"


def _lost_brokers(settings: Settings) -> str:
    """Return a text about lost brokers that earlier runs saw: a name server also forgets their topics."""
    from rmqcli.cli.running import now_ms
    from rmqcli.doctor.survey import SeenFile

    seen = SeenFile(settings.namesrv).read()
    places = _asked(_places, settings) if seen.brokers else None
    labels = [one.label for one in seen.missing(places, now_ms())] if places else []
    return f"; a broker that had it may be lost: {', '.join(labels)} (rmq doctor)" if labels else ""


def _known(kind: str, settings: Settings) -> Collection[str]:
    ask = _NAMES.get(kind)
    return () if ask is None else _asked(ask, settings) or ()


def _asked(ask: Callable[[Admin], Awaitable[T]], settings: Settings) -> T | None:
    """Return the reply of the cluster; None if it takes longer than SECONDS."""
    from rmqcli.cli.running import run_async

    quiet = Settings(settings.given._replace(verbose=False, timeout=SECONDS))

    async def main() -> T | None:
        import trio

        from rmqcli.client import Admin

        with trio.move_on_after(SECONDS):
            async with Admin(**quiet.client_options) as admin:
                return await ask(admin)
        return None

    return run_async(main)


async def _places(admin: Admin) -> Mapping[str, Place]:
    from rmqcli.doctor.survey import places_of

    return places_of(await admin.brokers.cluster_info())


async def _topics(admin: Admin) -> Collection[str]:
    from rmqcli.plans.topics import application_topics

    return application_topics(await admin.topics.names(), await admin.brokers.cluster_info())


async def _groups(admin: Admin) -> Collection[str]:
    return await admin.groups.names(failures={})


_NAMES = {"topic": _topics, "group": _groups}
