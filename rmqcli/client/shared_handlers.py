"""Several clients on one instance that answer the same request code: each hears it, the first reply goes out."""

from __future__ import annotations

from codec.frame import RemotingCommand
from rmqcli.client.instance import ClientInstance, RequestHandler
from rmqcli.client.link import Link

__all__ = ["share", "unshare"]


class _Shared:
    """What stands in `instance.handlers` for a code."""

    def __init__(self) -> None:
        self.members: list[RequestHandler] = []

    def __call__(self, link: Link, request: RemotingCommand) -> RemotingCommand | None:
        replies = [member(link, request) for member in list(self.members)]
        return next((reply for reply in replies if reply is not None), None)


def share(instance: ClientInstance, code: int, handler: RequestHandler) -> None:
    """Adds a handler of `code`; it returns None for a request that is meant for another client."""
    known = instance.handlers.get(code)
    if isinstance(known, _Shared):
        known.members.append(handler)
        return
    shared = instance.handlers[code] = _Shared()
    shared.members += [handler] if known is None else [known, handler]


def unshare(instance: ClientInstance, code: int, handler: RequestHandler) -> None:
    """Takes a handler away; one that is not there is no error."""
    known = instance.handlers.get(code)
    if isinstance(known, _Shared) and handler in known.members:
        known.members.remove(handler)
        if not known.members:
            del instance.handlers[code]
