"""Pages as a browser shows them: light and dark, at two widths, on paper."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import MEASURE, Browser, Picture, browser, picture
from tests.report.pages import cluster_reading, of_cluster, of_store
from tests.support import JavaStore

WIDTHS = (800, 1280)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests."""
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def pages(store_killed: JavaStore, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {"cluster": of_cluster(cluster_reading()), "store": of_store(store_killed.root)}
    for name, page in found.items():
        (folder / f"{name}.html").write_text(page)
    return {name: folder / f"{name}.html" for name in found}


@pytest.mark.parametrize("kind", ["cluster", "store"])
def test_a_page_can_be_read(shown: Browser, pages: dict[str, Path], kind: str) -> None:
    pictures: dict[str, Picture] = {}
    for scheme in ("light", "dark"):
        for width in WIDTHS:
            shown.show(pages[kind], width, scheme)
            found = shown.value(MEASURE)
            assert (found["width"], found["texts"] > 200) == (width, True)
            assert found["overflow"] <= 0
            assert found["outside"] == []
            assert found["pale"] == []
        pictures[scheme] = picture(shown.screenshot(1280, 2000, 0.2))
    assert pictures["light"].brightness > 0.8
    assert pictures["dark"].brightness < 0.3
    assert min(len(one.colors) for one in pictures.values()) > 50
    assert shown.complaints == []
    assert {url.partition(":")[0] for url in shown.asked} <= {"file", "about"}


def test_a_page_prints(shown: Browser, pages: dict[str, Path]) -> None:
    shown.show(pages["cluster"], 1280, "dark")
    found = base64.b64decode(shown.call("Page.printToPDF", printBackground=False)["data"])
    assert found.startswith(b"%PDF-")
    shown.call("Emulation.setEmulatedMedia", media="print", features=[])
    assert shown.value("getComputedStyle(document.documentElement).color") == "rgb(27, 35, 48)"
    assert shown.value("getComputedStyle(document.querySelector('nav')).display") == "none"


def test_the_measure_sees_what_is_wrong(shown: Browser, tmp_path: Path) -> None:
    page = tmp_path / "wrong.html"
    page.write_text("<!DOCTYPE html><p style='width:2000px;color:#ccc'>pale<script>console.error(1)</script>")
    before = len(shown.complaints)
    shown.show(page, 800, "light")
    found = shown.value(MEASURE)
    assert len(found["pale"]) == 1
    assert found["outside"]
    assert found["overflow"] > 1000
    assert len(shown.complaints) > before
    del shown.complaints[before:]
