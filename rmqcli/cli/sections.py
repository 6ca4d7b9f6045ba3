"""The sections of the list of commands in `rmq --help`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_SECTIONS: Mapping[str, frozenset[str]] = {
    "Messages": frozenset(("send", "request", "pull", "tail", "consume", "query", "id", "trace", "dlq")),
    "Administration": frozenset(),
    "Files": frozenset(("inspect", "export", "import", "spark", "sql", "mirror")),
    "Servers": frozenset(("up", "broker", "namesrv")),
    "Help": frozenset(("cheat", "help")),
}
_OTHERS = "Administration"


def sections(commands: Iterable[str]) -> dict[str, list[str]]:
    """Return the commands by section, in the given order; one that is in no section administers."""
    found: dict[str, list[str]] = {title: [] for title in _SECTIONS}
    for command in commands:
        title = next((title for title, names in _SECTIONS.items() if command in names), _OTHERS)
        found[title].append(command)
    return {title: names for title, names in found.items() if names}
