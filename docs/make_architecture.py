"""Draws the layers in docs/architecture.md from the imports: `python -m docs.make_architecture`.

A layer imports from layers below it, never from one above. It consists of subpackages; a module beside these
counts as part of the subpackages that import it. Subpackages that import each other are joined by ⇄.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from functools import cache
from pathlib import Path

import grimp

PAGE = Path(__file__).with_name("architecture.md")
BLOCK = re.compile(r"(<!-- layers of (.+?) -->\n```text\n).*?(```\n)", re.DOTALL)

Imports = Mapping[str, Set[str]]


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("rmqcli")


def subpackages_of(package: str) -> set[str]:
    return {module for module in graph().find_children(package) if graph().find_children(module)}


def subpackage_imports(package: str) -> dict[str, set[str]]:
    """Return the subpackages that each subpackage imports, itself or through modules beside them."""
    subpackages = subpackages_of(package)

    def subpackage_of(module: str) -> str | None:
        return next(
            (subpackage for subpackage in subpackages if f"{module}.".startswith(f"{subpackage}.")), None
        )

    def reached(modules: Set[str]) -> set[str]:
        found: set[str] = set()
        seen, waiting = set(modules), list(modules)
        while waiting:
            for module in graph().find_modules_directly_imported_by(waiting.pop()) - seen:
                seen.add(module)
                subpackage = subpackage_of(module)
                if subpackage is not None:
                    found.add(subpackage)
                elif f"{module}.".startswith(f"{package}.") and module != package:
                    waiting.append(module)
        return found

    return {
        subpackage: reached({subpackage} | graph().find_descendants(subpackage)) - {subpackage}
        for subpackage in subpackages
    }


def above(imports: Imports) -> dict[str, set[str]]:
    """Return all that each subpackage imports, itself or through others."""
    found = {subpackage: set(direct) for subpackage, direct in imports.items()}
    for middle, further in found.items():
        for below in found.values():
            if middle in below:
                below |= further
    return found


def layers(imports: Imports) -> list[list[str]]:
    """Return the subpackages of each layer, the top one first; those of a cycle are joined by ⇄."""
    reach = above(imports)
    cycles = {
        subpackage: frozenset(
            {subpackage} | {other for other in reach[subpackage] if subpackage in reach[other]}
        )
        for subpackage in reach
    }

    @cache
    def height(cycle: frozenset[str]) -> int:
        below = {cycles[other] for subpackage in cycle for other in imports[subpackage]} - {cycle}
        return 1 + max(map(height, below), default=-1)

    found: dict[int, list[str]] = {}
    for cycle in sorted(set(cycles.values()), key=min):
        names = sorted(subpackage.rpartition(".")[2] for subpackage in cycle)
        found.setdefault(height(cycle), []).append(" ⇄ ".join(names))
    return [found[level] for level in sorted(found, reverse=True)]


def picture(packages: str) -> str:
    """Return the layers of packages, one below the other: name, then a line for each layer."""
    lines = []
    for package in packages.split(", "):
        for number, names in enumerate(layers(subpackage_imports(package))):
            lines.append(f"{package if number == 0 else '':16}{'   '.join(names)}\n")
        lines.append("\n")
    return "".join(lines[:-1])


def drawn(text: str) -> str:
    """Return the page with its pictures drawn from the imports of today."""
    return BLOCK.sub(lambda match: match[1] + picture(match[2]) + match[3], text)


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
