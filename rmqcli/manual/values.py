"""Values that a shell completes for an option or an argument: names of the cluster, or fixed words.

`names` is a kind of `rmq __complete`; the words are those that the commands accept. Both are empty for free
text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rmqcli.cli.app import COMMANDS
from rmqcli.cli.help_topics import TOPICS, subjects
from rmqcli.cli.settings import COLORS
from rmqcli.codec.allocation import STRATEGIES
from rmqcli.export.output.layout import COMPRESSIONS, PARTITIONS
from rmqcli.export.transform.decoding import FORMATS as BODY_FORMATS
from rmqcli.export.transform.decoding import ON_ERROR
from rmqcli.monitor.verdict import FORMATS
from rmqcli.plans.allocation import OF_ROOMS


class Values(NamedTuple):
    """The offered values. `repeats`: the argument takes all further words."""

    names: str = ""
    words: tuple[str, ...] = ()
    repeats: bool = False

    @property
    def spec(self) -> str:
        """The notation in bash and zsh: `topics`, `=auto,always,never`, or `-` for free text."""
        return self.names or (f"={','.join(self.words)}" if self.words else "-")


_ENDS = Values(words=("commit", "rollback", "unknown"))
_OPTIONS: Mapping[str, Values] = {
    "--balance": Values(words=("averagely", "circle", "hash")),
    "--broker": Values("brokers"),
    "--cluster": Values("clusters"),
    "--color": Values(words=tuple(sorted(filter(None, COLORS)))),
    "--compression": Values(words=COMPRESSIONS),
    "--confirm": Values("profiles"),
    "--from PLACE": Values(words=("start", "end")),
    "--decode": Values(words=tuple(BODY_FORMATS)),
    "--format NAME": Values(words=tuple(FORMATS)),
    "--group": Values("groups"),
    "--offset": Values(words=("start", "end")),
    "--on-error": Values(words=ON_ERROR),
    "--partition-by": Values(words=tuple(PARTITIONS)),
    "--perm": Values(words=("r", "w", "rw")),
    "--profile": Values("profiles"),
    "copy --queues": Values(words=("keep", "hash")),
    "--queues HOW": Values(words=("keep", "hash", "round-robin")),
    "top --sort": Values(words=("name", "in", "out", "lag", "change", "eta")),
    "--strategy": Values(words=(*STRATEGIES, *OF_ROOMS)),
    "--to TARGET": Values(words=("start", "end")),
    "--to TOPIC": Values("topics"),
    "--to-profile": Values("profiles"),
    "--topic": Values("topics"),
    "--trace-topic": Values("topics"),
    "--transaction": _ENDS,
    "--unset": Values(words=("map", "timeout", "group", "keys", "tls")),
    "send --check": _ENDS,
}
_ARGUMENTS: Mapping[str, Values] = {
    "BROKER": Values("brokers"),
    "GROUP": Values("groups"),
    "NAMESPACE": Values(words=("ORDER_TOPIC_CONFIG",)),
    "TOPIC": Values("topics"),
    "copy TO": Values("topics"),
    "cheat SUBJECT": Values(words=tuple(subjects())),
    "help COMMAND": Values(words=(*COMMANDS, *TOPICS)),
    "offsets clone FROM": Values("groups"),
    "offsets clone TO": Values("groups"),
    "profile NAME": Values("profiles"),
    "top WHAT": Values(words=("groups", "topics", "brokers")),
}
_FILES = ("inspect",)
"""Groups whose topics and groups are those of a store folder."""


def option_values(path: tuple[str, ...], name: str, metavar: str) -> Values:
    """Return the values that the option of the command offers; `name` is its long name."""
    found = _first(_OPTIONS, f"{' '.join(path)} {name}", f"{name} {metavar}", name)
    return Values() if path[:1] == _FILES and found.names in ("topics", "groups") else found


def argument_values(path: tuple[str, ...], metavar: str, *, repeats: bool) -> Values:
    """Return the values that the argument offers, whichever way its metavar marks it as optional."""
    name = metavar.strip("[].")
    found = _first(_ARGUMENTS, f"{' '.join(path)} {name}", f"{' '.join(path[:1])} {name}", name)
    return found._replace(repeats=repeats)


def _first(table: Mapping[str, Values], *keys: str) -> Values:
    return next((table[key] for key in keys if key in table), Values())
