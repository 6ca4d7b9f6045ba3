"""The running clients of a group: what each says of itself, through the broker (code 307)."""

from __future__ import annotations

from collections.abc import Collection

from codec.bodies import ConsumerRunningInfo
from codec.codes import RequestCode
from codec.headers import GetConsumerRunningInfoRequestHeader
from codec.queue import MessageQueue
from rmqcli.client.admin.base import AdminBase, gather, read_body

__all__ = ["MemberAdmin"]

RELAY_TIMEOUT = 3.0  # seconds; a broker gives its client 10, a person does not


class MemberAdmin(AdminBase):
    """Calls that reach running consumers."""

    async def running_info(
        self, group: str, client_id: str, *, jstack: bool = False, timeout: float = RELAY_TIMEOUT
    ) -> ConsumerRunningInfo:
        """What a running consumer tells of itself; BrokerRefused when it is not connected, too old or silent."""
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        header = GetConsumerRunningInfoRequestHeader(
            consumer_group=group, client_id=client_id, jstack_enable=jstack
        )

        async def ask(address: str) -> ConsumerRunningInfo:
            reply = await self.instance.call(address, code, header, timeout=timeout)
            return read_body(ConsumerRunningInfo, reply, address, code)

        answers, _ = await self.ask_each(await self.masters(), ask)
        return next(iter(answers.values()))

    async def queue_owners(self, group: str, client_ids: Collection[str]) -> dict[MessageQueue, str]:
        """Which client holds which queue now; clients that do not tell are left out."""
        infos, _ = await gather(client_ids, lambda client_id: self.running_info(group, client_id))
        return {queue: client_id for client_id, info in infos.items() for queue in info.mq_table}
