"""The console in a browser: how it looks, by the keyboard, for a screen reader, and while the cluster changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import trio

from rmqcli.console.guard import Guard
from rmqcli.console.server import open_console
from rmqcli.console.shared import MAX_VIEWERS
from tests.console.busy import Busy, busy
from tests.console.serving import OURS, console_of, served
from tests.report.browser import MEASURE, Browser, browser

NARROW = 360
PATIENCE = 30.0  # seconds
TAB, ENTER = ("Tab", 9), ("Enter", 13)
MAX_TABS = 40
FOCUSED = """(() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  return [(one.labels?.[0] || one).innerText.trim(), style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0];
})()"""
TOPIC = "/topic?name=orders"
PATHS = (
    "/",
    TOPIC,
    "/message?topic=orders&broker=broker-a&queue=0&offset=3",
    "/group?name=audit",
    "/dead-letters?group=mailers",
)


def check(shown: Browser, url: str, width: int, scheme: str) -> None:
    shown.show(url, width, scheme)
    found = shown.value(MEASURE)
    assert (found["width"], found["overflow"] <= 0, found["pale"]) == (width, True, [])  # tables scroll
    assert shown.value("document.documentElement.className") == "js"
    assert shown.complaints == []


def wait_for(shown: Browser, text: str, *, is_there: bool = True) -> None:
    end = time.monotonic() + PATIENCE
    while (text in body(shown)) != is_there:
        assert time.monotonic() < end, text


def body(shown: Browser) -> str:
    """Return the text of a page, empty between two."""
    try:
        return str(shown.value("document.body?.innerText ?? ''"))
    except AssertionError as error:
        if "navigated" in str(error):
            return ""
        raise


async def look(folder: Path, at: Callable[[Browser, str, Busy], None], interval: float = 5.0) -> None:
    """Call a function with a browser, the URL of a console, and its cluster, in a thread."""

    def run(port: int) -> None:
        with browser(folder) as shown:
            at(shown, f"http://127.0.0.1:{port}", found)

    async with (
        busy() as found,
        open_console("127.0.0.1", 0, console_of(found.admin, interval=interval), Guard(OURS)) as port,
    ):
        await trio.to_thread.run_sync(run, port)


async def test_a_view_fits_a_telephone(tmp_path: Path) -> None:
    def run(port: int) -> None:
        with browser(tmp_path) as shown:
            check(shown, f"http://127.0.0.1:{port}{TOPIC}", NARROW, "light")

    async with served() as found:
        await trio.to_thread.run_sync(run, found.port)


async def test_views_at_three_widths(tmp_path: Path) -> None:
    def at(shown: Browser, url: str, _: Busy) -> None:
        for path in PATHS:
            for width, scheme in ((NARROW, "dark"), (800, "light"), (1400, "dark")):
                check(shown, url + path, width, scheme)

    await look(tmp_path, at)


def tab_to(shown: Browser, label: str) -> list[str]:
    """Press Tab until an element has the focus, which is visible on the way. Return the labels on the way."""
    way: list[str] = []
    while label not in way:
        assert len(way) < MAX_TABS, way
        shown.press(*TAB)
        text, is_visible = shown.value(FOCUSED)
        assert is_visible, text
        way.append(text)
    return way


def search(shown: Browser, url: str, label: str, text: str) -> str:
    """Search in a topic by the keyboard alone. Return the text of the table of messages."""
    shown.show(url + TOPIC, 800, "light")
    tab_to(shown, label)
    shown.type(text)
    shown.press(*ENTER)
    wait_for(shown, "Messages found")
    found: str = shown.value("document.querySelector('main table').innerText")
    return found


async def test_a_search_by_the_keyboard(tmp_path: Path) -> None:
    def at(shown: Browser, url: str, _: Busy) -> None:
        shown.show(url + TOPIC, 800, "light")
        way = ["Skip to the content", "Overview", "Dead letters", "Pause", "Key", "Message ID"]
        assert tab_to(shown, "Message ID") == way
        found = search(shown, url, "Key", "order-7")
        assert '"order": 7,' in found and '"order": 8,' not in found
        assert shown.value("document.querySelector('[name=key]').value") == "order-7"

    await look(tmp_path, at)


async def test_searches_by_id_and_time(tmp_path: Path) -> None:
    def at(shown: Browser, url: str, cluster: Busy) -> None:
        found = search(shown, url, "Message ID", cluster.message_id)
        assert '"order": 11,' in found and '"order": 10,' not in found
        assert '"order": 11,' in search(shown, url, "Offsets or times", "@-1h")
        assert "order" not in shown_rows(shown, url, "@-2h:@-1h")
        shown.show(url + TOPIC, 800, "light")
        tab_to(shown, "Offsets or times")
        shown.type("yesterday")
        shown.press(*ENTER)
        wait_for(shown, "The search was not carried out")
        assert "yesterday" in shown.value("document.querySelector('form [role=alert]').innerText")

    await look(tmp_path, at)


def shown_rows(shown: Browser, url: str, span: str) -> str:
    shown.show(f"{url}{TOPIC}&range={span}", 800, "light")
    found: str = shown.value("document.querySelector('main section').innerText")
    return found


async def test_what_a_screen_reader_is_told(tmp_path: Path) -> None:
    def at(shown: Browser, url: str, _: Busy) -> None:
        for path in PATHS:
            shown.show(url + path, 800, "light")
            nodes = shown.call("Accessibility.getFullAXTree")["nodes"]
            roles = [
                (one["role"]["value"], one.get("name", {}).get("value", ""))
                for one in nodes
                if not one["ignored"]
            ]
            named = {
                "link",
                "button",
                "searchbox",
                "spinbutton",
                "textbox",
                "navigation",
                "search",
                "columnheader",
            }
            assert [role for role, name in roles if role in named and not name] == []
            kinds = [role for role, _ in roles]
            assert (kinds.count("main"), kinds.count("banner"), kinds.count("contentinfo")) == (1, 1, 1)
            status = next(one for one in nodes if one["role"]["value"] == "status")
            assert {"live": "polite", "atomic": True}.items() <= {
                one["name"]: one["value"]["value"] for one in status["properties"]
            }.items()
            levels = shown.value("[...document.querySelectorAll('h1,h2,h3')].map((one) => +one.tagName[1])")
            assert levels[0] == 1 and all(b - a <= 1 for a, b in pairwise(levels)), path
            assert shown.value("document.documentElement.lang") == "en"
            ids = shown.value("[...document.querySelectorAll('[id]')].map((one) => one.id)")
            assert len(ids) == len(set(ids))

    await look(tmp_path, at)


async def test_a_page_stays_up_to_date(tmp_path: Path) -> None:
    def at(shown: Browser, url: str, cluster: Busy) -> None:
        shown.show(f"{url}/", 800, "light")
        wait_for(shown, "orders")
        shown.value("document.querySelector('#pause').focus()")
        trio.from_thread.run(cluster.admin.topics.create, "invoices")
        wait_for(shown, "invoices")
        assert shown.value(FOCUSED)[0] == "Pause"
        assert shown.complaints == []

    await look(tmp_path, at, 1.0)


async def test_an_outage_is_told_and_ends_without_a_reload(tmp_path: Path) -> None:
    def at(shown: Browser, url: str, found: Busy) -> None:
        cluster = found.cluster
        shown.show(f"{url}/", 800, "light")
        wait_for(shown, "billing")
        shown.value("window.loaded = 'once'")
        trio.from_thread.run_sync(cluster.cut, cluster.broker_address, 2.5)
        status = "document.querySelector('[role=status]').innerText"
        wait_for(shown, "Outage since")
        assert "Outage since" in shown.value(status) and shown.value(MEASURE)["pale"] == []
        assert "billing" in shown.value("document.body.innerText")
        wait_for(shown, "Outage since", is_there=False)
        assert "The cluster answers again" in shown.value(status)
        assert (shown.value("window.loaded"), shown.complaints) == ("once", [])

    await look(tmp_path, at, 1.0)


async def test_the_end_of_the_console_is_told(tmp_path: Path) -> None:
    def at(shown: Browser, port: int) -> None:
        shown.show(f"http://127.0.0.1:{port}/", 800, "light")
        wait_for(shown, "billing")

    async with busy() as found:
        with browser(tmp_path) as shown:
            async with open_console("127.0.0.1", 0, console_of(found.admin), Guard(OURS)) as port:
                await trio.to_thread.run_sync(at, shown, port)
            await trio.to_thread.run_sync(wait_for, shown, "The console itself does not answer")
            assert "billing" in shown.value("document.body.innerText")
            async with open_console("127.0.0.1", port, console_of(found.admin), Guard(OURS)):
                await trio.to_thread.run_sync(lambda: wait_for(shown, "The console itself", is_there=False))


async def test_a_page_too_many_is_kept_up_to_date_when_others_leave(tmp_path: Path) -> None:
    async with busy() as found:
        console = console_of(found.admin, interval=1.0)
        for _ in range(MAX_VIEWERS):
            await console.live.join()

        def at(port: int) -> None:
            with browser(tmp_path) as shown:
                shown.show(f"http://127.0.0.1:{port}/", 800, "light")
                while shown.asked.count(f"http://127.0.0.1:{port}/") < 2:
                    wait_for(shown, "billing")  # refreshed, because it was refused
                trio.from_thread.run_sync(console.live.leave)
                trio.from_thread.run(found.admin.topics.create, "invoices")
                wait_for(shown, "invoices")

        async with open_console("127.0.0.1", 0, console, Guard(OURS)) as port:
            await trio.to_thread.run_sync(at, port)
