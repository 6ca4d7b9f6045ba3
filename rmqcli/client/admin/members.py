"""The running clients of a group: what each says of itself, and what it does with a message, through the broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from codec.bodies.offsets import GetConsumerStatusBody
from codec.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from codec.codes import RequestCode
from codec.headers.clients import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from codec.headers.offsets import GetConsumerStatusRequestHeader
from codec.message import MessageExt
from codec.message_queue import MessageQueue
from rmqcli.client.admin.base import AdminBase, gather, reachable, read_body
from rmqcli.client.errors import ClientError

__all__ = ["MemberAdmin"]

RELAY_TIMEOUT = 3.0  # seconds; a broker gives its client 10, a person does not
DIRECT_TIMEOUT = 12.0  # seconds; the broker gives the client 10 to consume a message
STATUS_TIMEOUT = 6.0  # seconds for each client: the broker asks one after the other and gives each 5


class MemberAdmin(AdminBase):
    """Calls that reach running consumers."""

    async def running_info(
        self,
        group: str,
        client_id: str,
        *,
        jstack: bool = False,
        timeout: float = RELAY_TIMEOUT,
        failures: Mapping[str, ClientError] | None = None,
    ) -> ConsumerRunningInfo:
        """What a running consumer tells of itself; BrokerRefused when it is not connected, too old or silent. Brokers that are
        lost by `failures` are not asked."""
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        header = GetConsumerRunningInfoRequestHeader(
            consumer_group=group, client_id=client_id, jstack_enable=jstack
        )

        async def ask(address: str) -> ConsumerRunningInfo:
            reply = await self.instance.call(address, code, header, timeout=timeout)
            return read_body(ConsumerRunningInfo, reply, address, code)

        answers, _ = await self.ask_each(reachable(await self.masters(), failures), ask)
        return next(iter(answers.values()))

    async def running_infos(
        self, group: str, client_ids: Collection[str], *, failures: Mapping[str, ClientError] | None = None
    ) -> tuple[dict[str, ConsumerRunningInfo], dict[str, ClientError]]:
        """What several tell of themselves, and why others do not, by client id."""
        return await gather(
            client_ids, lambda client_id: self.running_info(group, client_id, failures=failures)
        )

    async def queue_owners(
        self, group: str, client_ids: Collection[str], *, failures: Mapping[str, ClientError] | None = None
    ) -> dict[MessageQueue, str]:
        """Which client holds which queue now; clients that do not tell are left out."""
        infos, _ = await self.running_infos(group, client_ids, failures=failures)
        return {queue: client_id for client_id, info in infos.items() for queue in info.mq_table}

    async def held_offsets(
        self,
        group: str,
        topic: str,
        client_ids: Collection[str],
        *,
        failures: Mapping[str, ClientError] | None = None,
    ) -> dict[str, dict[MessageQueue, int]]:
        """Client id → the next offset of each queue that it has in mind, told to the broker or not yet (code 223).

        Clients that do not answer are left out.
        """
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS

        async def ask_one(client_id: str) -> dict[MessageQueue, int] | None:
            header = GetConsumerStatusRequestHeader(topic=topic, group=group, client_addr=client_id)

            async def ask(address: str) -> GetConsumerStatusBody:
                reply = await self.instance.call(address, code, header, timeout=STATUS_TIMEOUT)
                return read_body(GetConsumerStatusBody, reply, address, code)

            answers, _ = await self.ask_each(reachable(await self.masters(), failures), ask)
            tables = [answer.consumer_table for answer in answers.values()]
            told = [table[client_id] for table in tables if client_id in table]
            return {queue: offset for part in told for queue, offset in part.items()} if told else None

        found, _ = await gather(client_ids, ask_one)
        return {client_id: table for client_id, table in found.items() if table is not None}

    async def consume_directly(
        self, group: str, client_id: str, message: MessageExt
    ) -> ConsumeMessageDirectlyResult:
        """Has a client consume a stored message now (code 309); no offset moves. Refused when it does not answer in 10 s."""
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        header = ConsumeMessageDirectlyResultRequestHeader(
            consumer_group=group,
            client_id=client_id,
            msg_id=message.offset_msg_id,
            broker_name=message.broker_name,
            topic=message.topic,
        )
        (address,) = (await self.masters(brokers=[message.broker_name])).values()
        timeout = max(DIRECT_TIMEOUT, self.instance.timeout)
        reply = await self.instance.call(address, code, header, timeout=timeout)
        return read_body(ConsumeMessageDirectlyResult, reply, address, code)
