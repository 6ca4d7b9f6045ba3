"""What every area of administration uses: who is in the cluster, and asking several brokers at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar, Unpack

import trio

from codec.bodies.base import decode_body
from codec.bodies.route import ClusterInfo
from codec.codes import MASTER_ID, RequestCode, ResponseCode
from codec.errors import CodecError
from codec.headers.base import Header, to_ext
from codec.remoting.frame import RemotingCommand
from rmqcli.client.errors import (
    UNREACHED,
    ClientError,
    InvalidRequest,
    NotFound,
    UnexpectedReply,
    request_name,
)
from rmqcli.client.group.offsets import OffsetCalls
from rmqcli.client.instance import Client, ClientInstance, InstanceOptions
from rmqcli.client.wire.request_headers import command

__all__ = ["AdminBase", "read_body"]

ADMIN_TIMEOUT = 5.0  # seconds; DefaultMQAdminExt.timeoutMillis
AT_ONCE = 16  # requests of one call that are under way at the same time

Answer = TypeVar("Answer")
Body = TypeVar("Body")
Asked = TypeVar("Asked", bound=object)


def read_body(cls: type[Body], reply: RemotingCommand, address: str, code: int) -> Body:
    """The typed body of a reply; UnexpectedReply when it does not make one."""
    try:
        return decode_body(cls, reply.body)
    except CodecError as error:
        raise UnexpectedReply(address, request_name(code), str(error)) from error


class AdminBase(OffsetCalls, Client):
    """Base of the areas.

    Calls that ask several brokers raise when one of them fails; those with a parameter `failures` take a dict for it: broker
    name → error, and give what the others answered. When all fail they raise all the same.
    """

    def __init__(self, *, instance: ClientInstance | None = None, **options: Unpack[InstanceOptions]) -> None:
        options.setdefault("timeout", ADMIN_TIMEOUT)
        options.setdefault("namespace", "")  # an address that names an instance is not meant so here
        super().__init__(instance, options)
        if self.instance.namespace:
            raise InvalidRequest("an Admin has no namespace: it is told the whole names of topics and groups")

    async def cluster_info(self) -> ClusterInfo:
        """All clusters, brokers and addresses as the name server knows them (code 106)."""
        code = RequestCode.GET_BROKER_CLUSTER_INFO
        reply = await self.instance.ask_name_server(code)
        info = read_body(ClusterInfo, reply, self.instance.name_servers.current, code)
        self.instance.routes.learn({name: data.broker_addrs for name, data in info.broker_addr_table.items()})
        return info

    async def invoke(
        self,
        address: str,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,
    ) -> RemotingCommand:
        """Any request to any address; the reply comes back whatever its code."""
        ext = to_ext(header) if isinstance(header, Header) else None if header is None else dict(header)
        return await self.instance.pool.request(
            address, command(code, ext, body), timeout or self.instance.timeout
        )

    async def masters(self, *, brokers: Collection[str] = (), cluster: str | None = None) -> dict[str, str]:
        """Broker name → master address: the named brokers, those of a cluster, or all. NotFound for an unknown name."""
        info = await self.cluster_info()
        table = info.broker_addr_table
        names = set(table)
        if cluster is not None:
            if cluster not in info.cluster_addr_table:
                raise self._unknown(f"no cluster {cluster}", info.cluster_addr_table)
            names &= set(info.cluster_addr_table[cluster])
        for name in brokers:
            if name not in names:
                raise self._unknown(f"no broker {name}", names)
        wanted = sorted(set(brokers) or names)
        found = {name: table[name].broker_addrs.get(MASTER_ID) for name in wanted}
        masters = {name: address for name, address in found.items() if address}
        if not masters:
            raise self._unknown("no broker with a master", names)
        return masters

    def _unknown(self, what: str, known: Collection[str]) -> NotFound:
        remark = f"{what}; known: {', '.join(sorted(known)) or 'none'}"
        address = self.instance.name_servers.current
        return NotFound(
            ResponseCode.QUERY_NOT_FOUND,
            remark,
            address,
            RequestCode.GET_BROKER_CLUSTER_INFO.name,
            concluded=True,
        )

    async def topic_masters(self, topic: str) -> dict[str, str]:
        """Broker name → address of the brokers of a topic: the master, else the slave with the lowest id."""
        route = await self.instance.route(topic)
        return {name: table[min(table)] for name, table in route.brokers.items() if table}

    async def ask_each(
        self, targets: Mapping[str, str], ask: Callable[[str], Awaitable[Answer]]
    ) -> tuple[dict[str, Answer], dict[str, ClientError]]:
        """Asks all addresses at once: answers and failures by broker name. When all fail the first error is raised."""
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
        """As `ask_each`. With `failures` brokers that fail are noted there and the others' answers count; else they raise.
        One that is noted there as lost already is not asked again: that would cost its timeout once more."""
        answers, found = await self.ask_each(reachable(targets, failures), ask)
        if failures is None and found:
            raise next(iter(found.values()))
        (failures if failures is not None else {}).update(found)
        return answers


def reachable(targets: Mapping[str, str], failures: Mapping[str, ClientError] | None) -> Mapping[str, str]:
    """`targets` without those that did not answer before; all of them when none would be left."""
    lost = {name for name, error in (failures or {}).items() if isinstance(error, UNREACHED)}
    return {name: address for name, address in targets.items() if name not in lost} or targets


async def gather(
    names: Collection[Asked] | Mapping[Asked, object], ask: Callable[[Asked], Awaitable[Answer]]
) -> tuple[dict[Asked, Answer], dict[Asked, ClientError]]:
    """Runs `ask` for every name, AT_ONCE at a time: answers and ClientErrors by name, in the order of the names."""
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
    """As `gather`, but any failure raises."""
    answers, failures = await gather(names, ask)
    if failures:
        raise next(iter(failures.values()))
    return answers
