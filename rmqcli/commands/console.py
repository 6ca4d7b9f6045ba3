"""`rmq console`: a page about a cluster that stays up to date, for a browser."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.options import OptionGroup
from rmqcli.cli.settings import Settings

if TYPE_CHECKING:
    from rmqcli.console.content import Content
    from rmqcli.console.guard import Guard

app = single_command()

TIMEOUT = 3.0  # seconds for each server that is asked
TOKEN_BYTES = 24

HostOption = Annotated[
    str,
    Option(
        "--host", metavar="IP", help="Address to listen on; one that other machines reach needs the token."
    ),
]
PortOption = Annotated[
    int, Option("--port", metavar="PORT", min=0, max=65535, help="Port to listen on; 0 for any free port.")
]
OpenOption = Annotated[bool, Option("--open", help="Open the page in a browser.")]
TokenOption = Annotated[bool, Option("--token", help="Require the token that is part of the printed URL.")]
IntervalOption = Annotated[
    float,
    Option("--interval", metavar="SECONDS", min=1, max=3600, help="Time between two polls of the cluster."),
]


@dataclass(frozen=True, slots=True)
class Shown(OptionGroup):
    """The part of messages that is shown."""

    mask: Annotated[bool, Option("--mask", help="Mask letters and digits of bodies and properties.")] = False
    no_bodies: Annotated[bool, Option("--no-bodies", help="Hide bodies and properties of applications.")] = (
        False
    )
    max_body: Annotated[str, Option("--max-body", metavar="SIZE", help="Show at most SIZE of each body.")] = (
        "64K"
    )

    def content(self) -> Content:
        from rmqcli.console.content import Content
        from rmqcli.grammar.values import parse_size

        return Content(parse_size("--max-body", self.max_body), self.mask, self.no_bodies)


@command(
    app,
    "console",
    example="rmq console --open\nrmq console -n 10.0.0.5:9876 --port 8088\nrmq console --host 0.0.0.0 --mask",
)
def console(
    settings: Settings,
    *,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8088,
    open_: OpenOption = False,
    token: TokenOption = False,
    interval: IntervalOption = 5.0,
    shown: Shown,
) -> None:
    """Show a cluster on a page that stays up to date, until Ctrl-C or SIGTERM (exit code 0).

    The page shows brokers, groups, topics, messages and dead letters. It reads only, and names the commands
    that change something. The cluster is polled once for all viewers, and not without viewers. Everybody who
    reaches the page sees what the account of this command may read: on an address that other machines reach,
    the printed URL has a token, without which nothing is answered; connections are not encrypted.
    """
    from rmqcli.commands.common.serving import log_to_stderr, run_until_stopped

    content = shown.content()
    log_to_stderr(settings)
    run_until_stopped(lambda stack: _start(stack, settings, host, port, open_, token, interval, content))


async def _start(
    stack: AsyncExitStack,
    settings: Settings,
    host: str,
    port: int,
    is_opened: bool,
    with_token: bool,
    interval: float,
    content: Content,
) -> None:
    from rmqcli.client import Admin
    from rmqcli.codec.ids import join_address
    from rmqcli.commands.common.serving import announce, opened
    from rmqcli.console.server import open_console
    from rmqcli.console.shared import Live, Readings
    from rmqcli.console.view import Console

    guard = _guard(host, with_token)
    admin = await stack.enter_async_context(Admin(**{"timeout": TIMEOUT} | settings.client_options))
    found = Console(
        admin, settings.namesrv, settings.endpoint_words, content, Live(admin, interval), Readings(interval)
    )
    server = open_console(host, port, found, guard)
    bound = await opened(stack, server, "the console", join_address(host, port), "--port")
    query = "" if guard.token is None else f"?token={guard.token}"
    url = f"http://{join_address(_name(host), bound)}/{query}"
    announce(settings, {"console": url}, f"console of {settings.namesrv} at {url} (Ctrl-C ends it)")
    if is_opened:
        await _open(url)


def _guard(host: str, with_token: bool) -> Guard:
    import secrets
    import socket

    from rmqcli.commands.common.listening import is_open
    from rmqcli.console.guard import Guard

    names = frozenset(name.lower() for name in ("localhost", host, socket.gethostname(), socket.getfqdn()))
    token = secrets.token_urlsafe(TOKEN_BYTES) if with_token or is_open(host) else None
    return Guard(names, token)


def _name(host: str) -> str:
    """Return the name of this machine for an address that stands for all."""
    import socket

    return socket.gethostname() if host in ("0.0.0.0", "::") else host


async def _open(url: str) -> None:
    import webbrowser

    import trio

    from rmqcli.render.output import warn

    if not await trio.to_thread.run_sync(webbrowser.open, url):
        warn("no browser was found: open the address yourself")
