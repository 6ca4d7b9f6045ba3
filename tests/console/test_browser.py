"""The console in a browser."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio

from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import Admin
from rmqcli.console.guard import Guard
from rmqcli.console.server import open_console
from tests.console.serving import OURS, console_of, served
from tests.report.browser import MEASURE, Browser, browser

NARROW = 360
PATIENCE = 30.0  # seconds


def check(shown: Browser, url: str, width: int, scheme: str) -> None:
    shown.show(url, width, scheme)
    found = shown.value(MEASURE)
    assert (found["width"], found["overflow"] <= 0, found["pale"]) == (width, True, [])  # tables scroll
    assert shown.value("document.documentElement.className") == "js"
    assert shown.complaints == []


async def test_a_view_fits_a_telephone(tmp_path: Path) -> None:
    def look(port: int) -> None:
        with browser(tmp_path) as shown:
            check(shown, f"http://127.0.0.1:{port}/topic?name=orders", NARROW, "light")

    async with served() as found:
        await trio.to_thread.run_sync(look, found.port)


@pytest.mark.parametrize("path", ["/", "/topic?name=orders&key=order-1"])
async def test_views_at_three_widths(tmp_path: Path, path: str) -> None:
    def look(port: int) -> None:
        with browser(tmp_path) as shown:
            for width, scheme in ((NARROW, "dark"), (800, "light"), (1400, "dark")):
                check(shown, f"http://127.0.0.1:{port}{path}", width, scheme)

    async with served() as found:
        await trio.to_thread.run_sync(look, found.port)


def wait_for(shown: Browser, text: str) -> None:
    end = time.monotonic() + PATIENCE
    while text not in shown.value("document.body.innerText"):
        assert time.monotonic() < end, text


async def test_a_page_stays_up_to_date(tmp_path: Path) -> None:
    async with embedded_in_memory() as cluster, Admin(**cluster.client()) as admin:
        await admin.topics.create("orders")

        def look(port: int) -> None:
            with browser(tmp_path) as shown:
                shown.show(f"http://127.0.0.1:{port}/", 800, "light")
                wait_for(shown, "orders")
                trio.from_thread.run(admin.topics.create, "invoices")
                wait_for(shown, "invoices")
                assert shown.complaints == []

        async with open_console("127.0.0.1", 0, console_of(admin, interval=1.0), Guard(OURS)) as port:
            await trio.to_thread.run_sync(look, port)
