"""docs/glossary.md holds one term for each concept; the words that it sets in code as not used occur nowhere.

`python -m tests.docs.test_glossary [PATH ...]` lists the places.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
CODE = re.compile(r"`([^`]+)`")
HEADER = ["Term", "Meaning", "In Java", "Not used"]


def rows(text: str | None = None) -> list[list[str]]:
    """The cells of every term in `text`, by default the glossary, without the heads of the tables."""
    text = GLOSSARY.read_text() if text is None else text
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row != HEADER]


def unused_words() -> list[str]:
    return sorted({word for row in rows() for word in CODE.findall(row[3])})


def product_files() -> list[Path]:
    """Product code and pages. The glossary itself names the words."""
    code = [path for name in ("codec", "broker", "rmqcli") for path in (ROOT / name).rglob("*.py")]
    return sorted({*code, *(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")} - {GLOSSARY})


def uses(paths: Iterable[Path]) -> Iterator[str]:
    """Places as `path:line: word`. An underscore ends a word, so that names are searched, too."""
    words = "|".join(re.escape(word).replace(r"\ ", r"[\s_]+") for word in unused_words())
    pattern = re.compile(rf"(?<![a-z])(?:{words})(?![a-z])", re.IGNORECASE)
    for path in paths:
        text = path.read_text()
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: {match[0]}"


def test_every_row_has_four_cells_and_a_meaning() -> None:
    assert len(rows()) > 100
    assert [row for row in rows() if len(row) != 4 or not row[0] or not (row[1] or row[3])] == []


def test_a_term_stands_once() -> None:
    """A concept and a verb may share a word."""
    for part in GLOSSARY.read_text().split("\n## Verbs\n"):
        terms = Counter(term.strip() for row in rows(part) for term in row[0].split(","))
        assert [term for term, count in terms.items() if count > 1] == []


def test_words_that_are_not_used_occur_nowhere() -> None:
    assert list(uses(product_files())) == []


def test_a_use_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("A queue\nunit.\nBulk_size, bulky.\n")
    assert list(uses([page])) == [f"{page}:1: queue\nunit", f"{page}:3: Bulk"]


if __name__ == "__main__":
    places = list(uses([Path(name).resolve() for name in sys.argv[1:]] or product_files()))
    print(*places, sep="\n")
    sys.exit(1 if places else 0)
