"""A cluster with access control in memory, its files of accounts on a simulated disk, on the virtual clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.broker.testing.in_memory import START_MS, MemoryCluster, embedded_in_memory
from rmqcli.client import ClientInstance, Credentials
from rmqcli.codec.codes import SerializeType
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.signature import Signer
from tests.certificates import Certificates

HOME = Path("/home/rocketmq")
PLAIN = HOME / "conf" / "plain_acl.yml"
FOLDER = HOME / "conf" / "acl"
ACCOUNTS = b"""
accounts:
- {accessKey: operator, secretKey: secret-of-operator, admin: true}
- accessKey: ordinary
  secretKey: secret-of-ordinary
  topicPerms: [orders=PUB|SUB, news=SUB, letters=PUB, closed=DENY]
  groupPerms: [readers=SUB, shut=DENY]
- {accessKey: elsewhere, secretKey: secret-of-elsewhere, whiteRemoteAddress: 10.*.*.*}
"""
OPERATOR = Credentials("operator", "secret-of-operator")
ORDINARY = Credentials("ordinary", "secret-of-ordinary")
FROM = "org.apache.rocketmq.acl.common.AclException: "


def disk_with(files: dict[Path, bytes]) -> SimulatedDisk:
    disk = SimulatedDisk(now_ms=lambda: START_MS, loses_power=False)
    for path, content in files.items():
        disk.make_folder(path.parent)
        disk.write(path, content)
    return disk


@asynccontextmanager
async def guarded(
    disk: SimulatedDisk | None = None, certificates: Certificates | None = None, **settings: Any
) -> AsyncIterator[MemoryCluster]:
    """A cluster whose broker has these accounts; with certificates, it accepts only TLS."""
    disk = disk or disk_with({PLAIN: ACCOUNTS})
    options: dict[str, Any] = {"acl_enable": True, "rocketmq_home": str(HOME), **settings}
    if certificates is not None:
        options["tls"] = certificates.server("enforcing")
    async with embedded_in_memory(disk=disk, **options) as cluster:
        yield cluster


class Asker:
    """Sends single requests to the broker of a cluster, each signed as it says."""

    def __init__(self, instance: ClientInstance, address: str) -> None:
        self._instance = instance
        self._address = address

    async def __call__(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        account: Credentials | None = None,
        kind: SerializeType = SerializeType.JSON,
    ) -> tuple[int, str]:
        """Code and remark of the reply."""
        command = RemotingCommand(code, ext, body, serialize_type=kind)
        if account is not None:
            Signer(account.access_key, account.secret_key, account.security_token).sign(command)
        reply = await self._instance.pool.request(self._address, command, 30)
        return reply.code, reply.remark or ""


@asynccontextmanager
async def asking(cluster: MemoryCluster, certificates: Certificates | None = None) -> AsyncIterator[Asker]:
    options: Any = cluster.client() | ({} if certificates is None else {"tls": certificates.client()})
    async with ClientInstance(**options) as instance:
        yield Asker(instance, cluster.broker_address)


async def files_are_followed() -> None:
    """Longer than a change of a file may take."""
    await trio.sleep(1)
