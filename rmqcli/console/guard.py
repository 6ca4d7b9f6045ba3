"""The rules for requests: they must name this server, and contain the token if there is one.

A page of another site can make a browser send requests to this machine, even under that site's own name (DNS
rebinding). Such a request has a name in Host that is not ours; an address of digits cannot be rebound.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple


class Guard(NamedTuple):
    """`names` are those of the server besides addresses, `token` is None if none is needed."""

    names: frozenset[str]
    token: str | None = None

    def refusal(self, environ: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return a status and a text for a refusal, None for an accepted request."""
        if not self._is_ours(str(environ.get("HTTP_HOST", ""))):
            return "421 Misdirected Request", "This name is not one of the console: use its address."
        # Another site may link here, but neither read nor load anything.
        if (
            environ.get("HTTP_SEC_FETCH_SITE") == "cross-site"
            and environ.get("HTTP_SEC_FETCH_MODE") != "navigate"
        ):
            return "403 Forbidden", "Pages of other sites get no answer."
        if self.token is not None and not self.is_token(_cookies(environ).get(cookie_of(environ), "")):
            return "401 Unauthorized", "Open the address with the token that `rmq console` printed."
        return None

    def is_token(self, text: str) -> bool:
        return self.token is not None and hmac.compare_digest(
            text.encode("utf-8", "replace"), self.token.encode()
        )

    def _is_ours(self, host: str) -> bool:
        name = (
            host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
        )
        name = name.removeprefix("[").removesuffix("]").rstrip(".").lower()
        if name in self.names:
            return True
        try:
            return bool(ip_address(name))
        except ValueError:
            return False


def cookie_of(environ: Mapping[str, Any]) -> str:
    """Return the name of the cookie with the token: a host has the same cookies on all its ports."""
    return f"rmq_console_{environ['SERVER_PORT']}"


def _cookies(environ: Mapping[str, Any]) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in str(environ.get("HTTP_COOKIE", "")).split(";"))
    return {name: value for name, _, value in pairs}
