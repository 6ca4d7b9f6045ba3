"""Draws the floors in docs/architecture.md from the imports: `python -m docs.make_architecture`.

A floor imports from floors below it, never from one above. Rooms are subpackages; a module beside them passes its imports on
to the rooms that import it. Rooms that import each other are joined by ⇄.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from functools import cache
from pathlib import Path

import grimp

PAGE = Path(__file__).with_name("architecture.md")
BLOCK = re.compile(r"(<!-- floors of (.+?) -->\n```text\n).*?(```\n)", re.DOTALL)

Imports = Mapping[str, Set[str]]


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("rmqcli")


def rooms_of(package: str) -> set[str]:
    return {module for module in graph().find_children(package) if graph().find_children(module)}


def room_imports(package: str) -> dict[str, set[str]]:
    """Return the rooms that each room of a package imports, itself or by way of modules that are in no room."""
    rooms = rooms_of(package)

    def room_of(module: str) -> str | None:
        return next((room for room in rooms if f"{module}.".startswith(f"{room}.")), None)

    def reached(modules: Set[str]) -> set[str]:
        found: set[str] = set()
        seen, waiting = set(modules), list(modules)
        while waiting:
            for module in graph().find_modules_directly_imported_by(waiting.pop()) - seen:
                seen.add(module)
                room = room_of(module)
                if room is not None:
                    found.add(room)
                elif f"{module}.".startswith(f"{package}.") and module != package:
                    waiting.append(module)
        return found

    return {room: reached({room} | graph().find_descendants(room)) - {room} for room in rooms}


def above(imports: Imports) -> dict[str, set[str]]:
    """All that a room imports, itself or through other rooms."""
    found = {room: set(direct) for room, direct in imports.items()}
    for middle, further in found.items():
        for below in found.values():
            if middle in below:
                below |= further
    return found


def floors(imports: Imports) -> list[list[str]]:
    """Rooms by floor, the top one first. A floor is a list of rooms, or of rooms joined by ⇄."""
    reach = above(imports)
    cycles = {
        room: frozenset({room} | {other for other in reach[room] if room in reach[other]}) for room in reach
    }

    @cache
    def height(cycle: frozenset[str]) -> int:
        below = {cycles[other] for room in cycle for other in imports[room]} - {cycle}
        return 1 + max(map(height, below), default=-1)

    found: dict[int, list[str]] = {}
    for cycle in sorted(set(cycles.values()), key=min):
        names = sorted(room.rpartition(".")[2] for room in cycle)
        found.setdefault(height(cycle), []).append(" ⇄ ".join(names))
    return [found[level] for level in sorted(found, reverse=True)]


def picture(packages: str) -> str:
    """Return the floors of packages, one below the other: name, then a line for each floor."""
    lines = []
    for package in packages.split(", "):
        for number, names in enumerate(floors(room_imports(package))):
            lines.append(f"{package if number == 0 else '':16}{'   '.join(names)}\n")
        lines.append("\n")
    return "".join(lines[:-1])


def drawn(text: str) -> str:
    """Return the page with its pictures drawn from the imports of today."""
    return BLOCK.sub(lambda match: match[1] + picture(match[2]) + match[3], text)


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
