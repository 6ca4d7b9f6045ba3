"""Responds to requests: the views, the style sheet, the script, and the stream that announces polls.

Views are read in the trio run of the console and written in the thread of their request.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

import trio

from rmqcli.client import ClientError, NotFound
from rmqcli.console import html
from rmqcli.console.group import group, letters
from rmqcli.console.guard import Guard, cookie_of
from rmqcli.console.message import Place, message
from rmqcli.console.messages import Wanted
from rmqcli.console.overview import all_letters, overview
from rmqcli.console.shared import TooSlow
from rmqcli.console.topic import topic
from rmqcli.console.view import Console, View
from rmqcli.flows.errors import QueueNotFound, QueueNotPermitted
from rmqcli.http_server import open_http
from rmqcli.report.page import Section, Text

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

log = logging.getLogger(__name__)
T = TypeVar("T")
Given = Mapping[str, str]
MAX_VALUE = 1024  # characters of a value in an address
_ENDED = (trio.RunFinishedError, trio.Cancelled)
_FIXED = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Content-Security-Policy", html.POLICY),
    ("Cache-Control", "no-store"),
)


async def _overview(console: Console, given: Given) -> View | None:
    return await overview(console, given.get("filter", ""))


async def _topic(console: Console, given: Given) -> View | None:
    queue = _number(given.get("queue"))
    key, msg_id, span = (given.get(name, "").strip() for name in ("key", "id", "range"))
    return await topic(console, Wanted(given.get("name", ""), key, msg_id, span, queue))


async def _message(console: Console, given: Given) -> View | None:
    queue, offset = _number(given.get("queue")), _number(given.get("offset"))
    if queue is None or offset is None:
        return None
    place = Place(given.get("topic", ""), given.get("broker", ""), queue, offset)
    return await message(console, place, given.get("form"))


async def _group(console: Console, given: Given) -> View | None:
    return await group(console, given.get("name", ""))


async def _letters(console: Console, given: Given) -> View | None:
    name = given.get("group")
    return await (all_letters(console) if not name else letters(console, name))


_VIEWS: Mapping[str, Callable[[Console, Given], Awaitable[View | None]]] = {
    "/": _overview,
    "/topic": _topic,
    "/message": _message,
    "/group": _group,
    "/dead-letters": _letters,
}
_FILES: Mapping[str, tuple[str, Callable[[], bytes]]] = {
    "/console.css": ("text/css; charset=utf-8", html.sheet),
    "/console.js": ("text/javascript; charset=utf-8", html.script),
}


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None


class App:
    """The WSGI application. It calls async functions in the trio run of the token."""

    def __init__(self, console: Console, guard: Guard, token: trio.lowlevel.TrioToken) -> None:
        self._console, self._guard, self._token = console, guard, token

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        try:
            return self._answer(environ, start)
        except _ENDED:
            return _plain(start, "503 Service Unavailable", "The console ends.")
        except Exception:
            log.exception("%s cannot be shown", environ.get("PATH_INFO"))
            return _plain(
                start, "500 Internal Server Error", "The console has a defect; its log has details."
            )

    def _answer(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _plain(start, "405 Method Not Allowed", "The console only reads.")
        path, given = str(environ.get("PATH_INFO", "")), _given(environ)
        if self._guard.is_token(given.get("token", "")):
            return self._welcome(environ, start, given)
        refusal = self._guard.refusal(environ)
        if refusal is not None:
            return _plain(start, *refusal)
        if path in _FILES:
            kind, read = _FILES[path]
            return _whole(start, "200 OK", kind, read())
        if path == "/events":
            return self._events(start)
        return self._view(start, path, given)

    def _welcome(self, environ: Mapping[str, Any], start: StartResponse, given: Given) -> Iterable[bytes]:
        """Store the token in a cookie, and redirect to the same address without it."""
        rest = urlencode({name: value for name, value in given.items() if name != "token"})
        # A path of two slashes would be the address of another server.
        where = quote("/" + str(environ["PATH_INFO"]).lstrip("/"), errors="replace") + (
            f"?{rest}" if rest else ""
        )
        cookie = f"{cookie_of(environ)}={given['token']}; HttpOnly; SameSite=Lax; Path=/"
        start(
            "303 See Other", [("Location", where), ("Set-Cookie", cookie), ("Content-Length", "0"), *_FIXED]
        )
        return [b""]

    def _view(self, start: StartResponse, path: str, given: Given) -> Iterable[bytes]:
        make = _VIEWS.get(path)
        console = self._console
        view = _failed("Not found", "No such page.", HTTPStatus.NOT_FOUND)
        if make is not None:
            try:
                view = self._call(make, console, given) or view
            except (NotFound, QueueNotFound, QueueNotPermitted) as error:
                view = _failed("Not found", str(error), HTTPStatus.NOT_FOUND)
            except (ClientError, TooSlow) as error:
                view = _failed("No answer", str(error), HTTPStatus.SERVICE_UNAVAILABLE)
        text = html.document(view, console.live, console.where)
        status = f"{view.status} {HTTPStatus(view.status).phrase}"
        return _whole(start, status, "text/html; charset=utf-8", text.encode("utf-8", "backslashreplace"))

    def _events(self, start: StartResponse) -> Iterable[bytes]:
        if not self._call(self._console.live.join):
            return _plain(start, "503 Service Unavailable", "Too many pages are open.")
        start("200 OK", [("Content-Type", "text/event-stream"), *_FIXED])
        return self._stream()

    def _stream(self) -> Iterator[bytes]:
        live, seen = self._console.live, 0
        try:
            yield b": hello\n\n"
            while (number := self._call(live.after, seen)) is not None:
                yield f"data: {number}\n\n".encode() if number != seen else b": still there\n\n"
                seen = number
        except _ENDED:
            return
        finally:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(live.leave)

    def _call(self, work: Callable[..., Awaitable[T]], *arguments: object) -> T:
        return trio.from_thread.run(work, *arguments, trio_token=self._token)


def _given(environ: Mapping[str, Any]) -> dict[str, str]:
    try:
        pairs = parse_qsl(environ.get("QUERY_STRING", ""), max_num_fields=20, errors="surrogateescape")
    except ValueError:
        return {}
    return {name: value[:MAX_VALUE] for name, value in pairs}


def _failed(name: str, text: str, status: HTTPStatus) -> View:
    return View("Console", name, sections=[Section("What happened", [Text(text)])], status=status)


def _plain(start: StartResponse, status: str, text: str) -> list[bytes]:
    return _whole(start, status, "text/plain; charset=utf-8", f"{text}\n".encode())


def _whole(start: StartResponse, status: str, kind: str, body: bytes) -> list[bytes]:
    start(status, [("Content-Type", kind), ("Content-Length", str(len(body))), *_FIXED])
    return [body]


@asynccontextmanager
async def open_console(host: str, port: int, console: Console, guard: Guard) -> AsyncIterator[int]:
    """Respond to requests on a port (0: any) until the block ends. Yield the port. Raise OSError if it is in
    use.
    """
    app = App(console, guard, trio.lowlevel.current_trio_token())
    async with open_http(host, port, app) as bound, trio.open_nursery() as nursery:
        nursery.start_soon(console.live.run)
        try:
            yield bound
        finally:
            console.live.close()
            nursery.cancel_scope.cancel()
