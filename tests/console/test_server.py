"""The console over plain HTTP: its views, who gets them, and what hostile names and bodies do to them."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import Admin
from rmqcli.console.content import Content
from rmqcli.console.group import group, letters
from rmqcli.console.guard import Guard
from rmqcli.console.html import document
from rmqcli.console.message import Place, message
from rmqcli.console.overview import all_letters, overview
from rmqcli.console.server import App
from rmqcli.console.shared import MAX_KEPT, Live, Readings
from rmqcli.console.view import Field, Form, View, address
from rmqcli.report.page import Cell, Code, Section, Table
from tests.console.busy import busy
from tests.console.serving import console_of, served
from tests.report.pages import HOSTILE

PLACE = "/message?topic=orders&broker=broker-a&queue=0&offset=0"


async def test_views() -> None:
    async with served() as found:
        overview_page = await found.get("/")
        assert overview_page.status == 200
        assert 'href="/topic?name=orders"' in overview_page.text
        topic = await found.get("/topic?name=orders&key=order-1")
        assert (topic.status, PLACE.replace("&", "&amp;") in topic.text) == (200, True)
        assert "rmq topic delete orders -n 10.1.1.1:9876" in topic.text
        message = await found.get(PLACE)
        assert "&quot;card&quot;: 4711" in message.text and "ann@example.com" in message.text
        assert "00000000  7b 22 6e 61" in (await found.get(f"{PLACE}&form=hex")).text
        assert (await found.get("/topic?name=orders&range=bad")).status == 400
        for path in (
            "/nothing",
            "/topic?name=absent",
            "/group?name=absent",
            f"{PLACE}9",
            "/dead-letters?group=g",
        ):
            assert (await found.get(path)).status == 404, path
        assert (await found.get("/", "POST")).status == 405
        policy = message.headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'" in policy
        assert "script-src 'self' '" not in policy


async def test_views_of_what_is_consumed(autojump_clock: MockClock) -> None:
    async with busy() as found:
        console = console_of(found.admin)
        await trio.sleep(15)  # offsets are committed, traces sent

        async def page(view: Awaitable[View | None]) -> str:
            shown = await view
            assert shown is not None
            return " ".join(re.sub("<[^>]*>", " ", document(shown, console.live, "here")).split())

        whole = await page(overview(console))
        assert "lag audit: 9 messages wait, and no client runs start a consumer of the group" in whole
        assert "billing 0 1" in whole
        one = await page(message(console, Place("orders", "broker-a", 0, 11), None))
        assert "audit NOT_ONLINE 3" in one and "billing CONSUMED 12" in one
        assert "shop berlin" in one and f"rmq query orders --id {found.message_id} -n 10.1.1.1:9876" in one
        assert "shops" in one.partition("Trace")[2]
        billing = await page(group(console, "billing"))
        owner = (await found.admin.clients.consumer_ids("billing", "orders"))[0]
        assert f"orders broker-a:0 {owner} 12 12 0" in billing
        audit = await page(group(console, "audit"))
        assert "audit: no client is running, and 9 messages to consume" in audit
        assert "rmq offsets reset audit orders --to @-1h" in audit and "--stack" not in audit
        assert "mailers 1" in await page(all_letters(console))
        letter = await page(letters(console, "mailers"))
        dead = await page(message(console, Place("%DLQ%mailers", "broker-a", 0, 0), None))
        assert "First sent to mails" in dead
        assert "mails mail-1" in letter and "rmq dlq redrive mailers --id" in letter


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (Content(is_masked=True), "Xxx &lt;x&gt;Xxx"),
        (Content(is_hidden=True), "hidden"),
        (Content(limit=9), "first 9 B"),
    ],
)
async def test_bodies_are_masked_hidden_or_cut(content: Content, shown: str) -> None:
    async with served(content) as found:
        texts = [(await found.get(path)).text for path in (PLACE, f"{PLACE}&form=hex", "/topic?name=orders")]
    assert shown in texts[0]
    if content.limit > 9:
        assert not [
            text for text in texts if "Lee" in text or "4711" in text or "ann@" in text or "41 6e 6e" in text
        ]
    else:
        assert "Lee" not in texts[0]


async def test_other_sites_get_no_answer() -> None:
    async with served() as found:
        assert (await found.get("/", Host=f"evil.example:{found.port}")).status == 421
        assert (await found.get("/", Host="localhost")).status == 200
        assert (await found.get("/", Host="[::1]:80")).status == 200
        assert (await found.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")).status == 403


async def test_a_token_is_needed_once() -> None:
    async with served(token="secret") as found:
        for path in ("/", "/events", "/console.js", "/?token=wrong"):
            assert (await found.get(path)).status == 401, path
        welcome = await found.get("//evil.example/?token=secret&filter=a")
        assert (welcome.status, welcome.headers["Location"]) == (303, "/evil.example/?filter=a")
        cookie = welcome.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert (await found.get("/", Cookie=cookie.partition(";")[0])).status == 200


async def test_hostile_texts_are_text() -> None:
    async with embedded_in_memory() as cluster, Admin(**cluster.client()) as admin:
        console = console_of(admin)
        cell = Cell(HOSTILE, HOSTILE, HOSTILE, href=address("/topic", name=HOSTILE))
        field = Field("name", HOSTILE, HOSTILE, HOSTILE)
        section = Section(
            HOSTILE, [Table([], [[cell]]), Code(HOSTILE, HOSTILE, copied=True), Code(HOSTILE, HOSTILE)]
        )
        form = Form("/", HOSTILE, HOSTILE, [field], {"kept": HOSTILE}, HOSTILE)
        page = document(
            View(HOSTILE, HOSTILE, [(HOSTILE, cell)], form, sections=[section]), console.live, HOSTILE
        )
        assert console.command("x", "topic delete", HOSTILE) is None
        assert console.command("x", "topic delete", "-a;rm") == Code(
            "x", "rmq topic delete -n 10.1.1.1:9876 -- '-a;rm'", copied=True
        )
    assert page.count("<script") == page.count("</script>") == 1
    assert not [one for one in page if (one < " " and one != "\n") or one == "\u202e"]


async def test_viewers_hear_of_polls_of_which_there_is_one(autojump_clock: MockClock) -> None:
    async with (
        embedded_in_memory() as cluster,
        Admin(**cluster.client()) as admin,
        trio.open_nursery() as nursery,
    ):
        live = Live(admin, 5.0)
        nursery.start_soon(live.run)
        await trio.sleep(60)
        assert live.number == 0  # nobody looks
        assert await live.join() and await live.join()
        await trio.sleep(11)
        assert live.number == 3
        assert await live.after(0) == 3
        live.leave()
        live.leave()
        await trio.sleep(60)
        assert live.number <= 4
        live.close()
        assert await live.after(live.number) is None
        nursery.cancel_scope.cancel()


async def test_an_outage_is_told_and_ends(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, Admin(**cluster.client() | {"timeout": 1.0}) as admin:
        await admin.topics.create("orders")
        console = console_of(admin)
        await overview(console)
        cluster.cut(cluster.namesrv, 20)
        await trio.sleep(6)
        page = document(await overview(console), console.live, "here")
        assert "Outage since" in page and "orders" in page
        await trio.sleep(60)
        page = document(await overview(console), console.live, "here")
        assert "The cluster answers again" in page


async def test_readings_are_shared_and_bounded(autojump_clock: MockClock) -> None:
    reads: list[int] = []

    async def read() -> int:
        reads.append(1)
        await trio.sleep(1)
        return len(reads)

    readings = Readings(5.0)
    async with trio.open_nursery() as nursery:
        for _ in range(9):
            nursery.start_soon(readings.get, "a", read)
    assert len(reads) == 1
    await trio.sleep(6)
    assert await readings.get("a", read) == 2
    for key in range(100):
        await readings.get(key, read)
    assert len(readings._entries) == MAX_KEPT


def test_a_stream_ends_quietly_after_its_run() -> None:
    async def token() -> trio.lowlevel.TrioToken:
        return trio.lowlevel.current_trio_token()

    app = App(
        cast(Any, SimpleNamespace(live=Live(cast(Admin, None), 1.0))), Guard(frozenset()), trio.run(token)
    )
    assert list(app._stream()) == [b": hello\n\n"]
