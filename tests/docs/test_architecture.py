"""The pictures of docs/architecture.md are those of today's imports, and paths that pages name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.make_architecture import PAGE, above, drawn, layers
from tests.docs.pages import PAGES, ROOT

PATH = re.compile(r"`((?:codec|broker|rmqcli|tests|docs|benchmarks|completions|man|\.ci)/[\w./-]*)`")


def test_the_pictures_are_current() -> None:
    text = PAGE.read_text()
    assert drawn(text) == text, "run: python -m docs.make_architecture"


def test_layers_stand_on_what_they_import() -> None:
    imports = {"p.top": {"p.mid", "p.low"}, "p.mid": {"p.low"}, "p.low": set(), "p.side": {"p.low"}}
    assert layers(imports) == [["top"], ["mid", "side"], ["low"]]


def test_subpackages_that_import_each_other_share_a_layer() -> None:
    imports = {"p.a": {"p.b"}, "p.b": {"p.c"}, "p.c": {"p.a", "p.low"}, "p.low": set()}
    assert above(imports)["p.a"] == {"p.a", "p.b", "p.c", "p.low"}
    assert layers(imports) == [["a ⇄ b ⇄ c"], ["low"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_that_a_page_names_exist(page: Path) -> None:
    assert [path for path in PATH.findall(page.read_text()) if not (ROOT / path).exists()] == []
