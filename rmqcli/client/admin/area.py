"""`Area`, the base class of the administration areas, and concurrent requests (`gather`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from rmqcli.client.admin.values import TopicChange
from rmqcli.client.errors import UNREACHED, ClientError, GroupNotFound, NotFound, TopicNotFound
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.operations.operation import AnyOperation, Operation

if TYPE_CHECKING:
    from rmqcli.client.admin.admin import Admin

AT_ONCE = 16  # concurrent requests of one call

_ABSENT = {
    TopicNotFound: ResponseCode.TOPIC_NOT_EXIST,
    GroupNotFound: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
}

Answer = TypeVar("Answer")
Asked = TypeVar("Asked", bound=object)
HeaderT = TypeVar("HeaderT")
BodyT = TypeVar("BodyT")


class Area:
    """Base of the areas: the instance, and requests to several brokers at once.

    A call to several brokers raises if any of them fails. With `failures` (broker name → error), it adds the
    errors to that dict and returns the replies of the other brokers; it raises only if all of them fail.
    """

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self.instance = admin.instance

    def absent(
        self,
        kind: type[NotFound],
        text: str,
        operation: AnyOperation,
        failures: Mapping[str, ClientError] | None = None,
        *,
        missing: tuple[str, str] | None = None,
        known: Collection[str] | None = None,
    ) -> ClientError:
        """Return the error for something that no reply to `operation` contained, or the first of `failures`.

        `missing` is its kind and name, `known` are the names that the replies contained.
        """
        status = _ABSENT.get(kind, ResponseCode.QUERY_NOT_FOUND)
        error = kind(status, text, self.instance.name_servers.current, operation.name, concluded=True)
        error.missing = missing
        error.known = None if known is None else tuple(sorted(known))
        return next(iter((failures or {}).values()), error)

    async def ask_each(
        self, targets: Mapping[str, str], ask: Callable[[str], Awaitable[Answer]]
    ) -> tuple[dict[str, Answer], dict[str, ClientError]]:
        """Return replies and failures by broker name. Raises the first failure if all brokers fail."""
        answers, failures = await gather(targets, lambda name: ask(targets[name]))
        if failures and not answers:
            raise next(iter(failures.values()))
        return answers, failures

    async def ask_all(
        self,
        targets: Mapping[str, str],
        ask: Callable[[str], Awaitable[Answer]],
        failures: dict[str, ClientError] | None,
    ) -> dict[str, Answer]:
        """Return the replies by broker name.

        Collects failures in `failures`; if it is None, raises the first failure.

        Skips brokers that `failures` lists as unreachable, because each would cost its timeout again. If it
        lists all of them, raises the first of these errors.
        """
        lost = unreached(failures)
        if targets and lost.keys() >= targets.keys():
            raise lost[next(iter(targets))]
        answers, found = await self.ask_each(reachable(targets, failures), ask)
        if failures is not None:
            failures.update(found)
        elif found:
            raise next(iter(found.values()))
        return answers

    async def bodies(
        self,
        targets: Mapping[str, str],
        operation: Operation[HeaderT, Any, None, BodyT],
        header: HeaderT,
        failures: dict[str, ClientError] | None,
    ) -> dict[str, BodyT]:
        """Return the bodies of the replies to one request, like `ask_all`."""

        async def ask(address: str) -> BodyT:
            return (await self.instance.ask(address, operation, header, None)).body

        return await self.ask_all(targets, ask, failures)

    async def change(
        self,
        targets: Mapping[str, str],
        operation: Operation[HeaderT, None, BodyT, None],
        header: HeaderT,
        body: BodyT,
    ) -> TopicChange:
        """Send a change to several brokers. Raises the first failure if all of them fail."""
        answers, failures = await self.ask_each(
            targets, lambda address: self.instance.ask(address, operation, header, body)
        )
        return TopicChange(tuple(answers), failures)


def unreached(failures: Mapping[str, ClientError] | None) -> dict[str, ClientError]:
    """Return the failures of brokers that did not respond, by name."""
    return {name: error for name, error in (failures or {}).items() if isinstance(error, UNREACHED)}


def reachable(targets: Mapping[str, str], failures: Mapping[str, ClientError] | None) -> Mapping[str, str]:
    """Return `targets` without brokers that did not respond before, or all of them if none would be left."""
    lost = unreached(failures)
    return {name: address for name, address in targets.items() if name not in lost} or targets


async def gather(
    names: Collection[Asked] | Mapping[Asked, object], ask: Callable[[Asked], Awaitable[Answer]]
) -> tuple[dict[Asked, Answer], dict[Asked, ClientError]]:
    """Run `ask` for every name, AT_ONCE concurrently. Return results and errors in the order of `names`."""
    answers: dict[Asked, Answer] = {}
    failures: dict[Asked, ClientError] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def one(name: Asked) -> None:
        async with limit:
            try:
                answers[name] = await ask(name)
            except ClientError as error:
                failures[name] = error

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(one, name)
    ordered = list(names)
    return (
        {name: answers[name] for name in ordered if name in answers},
        {name: failures[name] for name in ordered if name in failures},
    )


async def gather_all(
    names: Collection[Asked], ask: Callable[[Asked], Awaitable[Answer]]
) -> dict[Asked, Answer]:
    """Return the results like `gather`. Raises the first failure."""
    answers, failures = await gather(names, ask)
    if failures:
        raise next(iter(failures.values()))
    return answers
