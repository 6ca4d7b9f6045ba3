"""Connected producers and consumers, and requests that brokers relay to running consumers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from rmqcli.client.admin.area import Area, gather, reachable
from rmqcli.client.admin.values import ConnectedProducer
from rmqcli.client.errors import BrokerRefused, ClientError, ConsumerOffline, NotFound
from rmqcli.codec.bodies.heartbeat import SubscriptionData
from rmqcli.codec.bodies.running import (
    ClientConnection,
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerRunningInfo,
)
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.clients import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetAllProducerInfoRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetProducerConnectionListRequestHeader,
)
from rmqcli.codec.headers.offsets import GetConsumerStatusRequestHeader
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.clients import (
    CONSUME_MESSAGE_DIRECTLY,
    GET_ALL_PRODUCER_INFO,
    GET_CONSUMER_CONNECTION_LIST,
    GET_CONSUMER_RUNNING_INFO,
    GET_PRODUCER_CONNECTION_LIST,
)
from rmqcli.codec.operations.offsets import INVOKE_BROKER_TO_GET_CONSUMER_STATUS

RELAY_TIMEOUT = 12.0  # seconds; the broker gives the client 10, and then names it
GLANCE_TIMEOUT = 3.0  # seconds for what is shown beside other facts; a silent client is omitted
STATUS_TIMEOUT = 6.0  # seconds for each client: the broker queries them in turn and gives each 5


class Activity(NamedTuple):
    """The owner of a queue, its position in the queue, and when it last consumed (epoch ms of its clock)."""

    client_id: str
    offset: int
    consumed: int


class ClientAdmin(Area):
    async def consumers(
        self, group: str, *, failures: dict[str, ClientError] | None = None
    ) -> ConsumerConnection:
        """Return the connected clients and subscriptions of a group (code 203).

        Raises ConsumerOffline if there are none. The failure of a broker is raised only if no other broker
        has a client.
        """
        broken: dict[str, ClientError] = {} if failures is None else failures
        answers = await self._connections(group, broken)
        connections = [answer for answer in answers.values() if isinstance(answer, ConsumerConnection)]
        if connections:
            return merged(connections)
        offline = [answer for answer in answers.values() if isinstance(answer, ConsumerOffline)]
        raise [*broken.values(), *offline][0]

    async def connections(
        self, group: str, *, failures: dict[str, ClientError]
    ) -> dict[str, ConsumerConnection]:
        """Return the clients of a group as known by each broker (code 203); {} if none is connected anywhere.

        Adds to `failures`, even if all brokers fail.
        """
        try:
            answers = await self._connections(group, failures)
        except ClientError:
            if not failures:
                raise
            return {}
        nobody = ConsumerConnection()
        found = {
            name: answer if isinstance(answer, ConsumerConnection) else nobody
            for name, answer in answers.items()
        }
        return found if any(one is not nobody for one in found.values()) else {}

    async def _connections(
        self, group: str, failures: dict[str, ClientError]
    ) -> dict[str, ConsumerConnection | ConsumerOffline]:
        header = GetConsumerConnectionListRequestHeader(consumer_group=group)

        async def ask(address: str) -> ConsumerConnection | ConsumerOffline:
            try:
                return (await self.instance.ask(address, GET_CONSUMER_CONNECTION_LIST, header, None)).body
            except ConsumerOffline as error:
                return error

        return await self.ask_all(await self._admin.brokers.masters(), ask, failures)

    async def connected(
        self, group: str, failures: dict[str, ClientError] | None
    ) -> ConsumerConnection | None:
        """Like `consumers`, but None if no broker that responds has a client."""
        try:
            return await self.consumers(group, failures=failures)
        except ConsumerOffline:
            return None
        except ClientError:
            if not failures:
                raise
            return None

    async def producers(
        self, *, brokers: Collection[str] = (), failures: dict[str, ClientError] | None = None
    ) -> list[ConnectedProducer]:
        """Return every producer connected to a master (code 328; not in older brokers), by group and
        client.
        """
        header = GetAllProducerInfoRequestHeader()
        masters = await self._admin.brokers.masters(brokers=brokers)
        answers = await self.bodies(masters, GET_ALL_PRODUCER_INFO, header, failures)
        return sorted(
            ConnectedProducer(
                group, c.client_id, name, (c.remote_ip or "").lstrip("/"), c.language or "", c.version
            )
            for name, table in answers.items()
            for group, clients in table.data.items()
            for c in clients
        )

    async def producers_of(
        self, group: str, *, brokers: Collection[str] = (), failures: dict[str, ClientError] | None = None
    ) -> list[ConnectedProducer]:
        """Return the producers of one group connected to a master (code 204).

        Raises NotFound if there are none.
        """
        operation = GET_PRODUCER_CONNECTION_LIST
        header = GetProducerConnectionListRequestHeader(producer_group=group)

        async def ask(address: str) -> list[ClientConnection]:
            try:
                return (await self.instance.ask(address, operation, header, None)).body.connection_set
            except BrokerRefused as error:
                # This is the reply of a broker that does not know the group.
                if type(error) is not BrokerRefused or error.code != ResponseCode.SYSTEM_ERROR:
                    raise
                return []

        answers = await self.ask_all(await self._admin.brokers.masters(brokers=brokers), ask, failures)
        found = sorted(
            ConnectedProducer(group, c.client_id, name, c.client_addr, c.language or "", c.version)
            for name, connections in answers.items()
            for c in connections
        )
        if not found and not failures:
            raise self.absent(NotFound, f"no producer of group {group} is connected", operation)
        return found

    async def running_info(
        self,
        group: str,
        client_id: str,
        *,
        jstack: bool = False,
        timeout: float = RELAY_TIMEOUT,
        failures: Mapping[str, ClientError] | None = None,
    ) -> ConsumerRunningInfo:
        """Return the state that a running consumer reports.

        Raises BrokerRefused if it is not connected, too old, or silent. Brokers that `failures` lists as
        unreachable are skipped.
        """
        operation = GET_CONSUMER_RUNNING_INFO
        header = GetConsumerRunningInfoRequestHeader(
            consumer_group=group, client_id=client_id, jstack_enable=jstack
        )

        targets = reachable(await self._admin.brokers.masters(), failures)
        answers, _ = await self.ask_each(
            targets, lambda address: self.instance.ask(address, operation, header, None, timeout=timeout)
        )
        return next(iter(answers.values())).body

    async def running_infos(
        self,
        group: str,
        client_ids: Collection[str],
        *,
        jstack: bool = False,
        timeout: float = RELAY_TIMEOUT,
        failures: Mapping[str, ClientError] | None = None,
    ) -> tuple[dict[str, ConsumerRunningInfo], dict[str, ClientError]]:
        """Return `running_info` of several clients, and the errors of the others, by client id."""
        return await gather(
            client_ids,
            lambda one: self.running_info(group, one, jstack=jstack, timeout=timeout, failures=failures),
        )

    async def queue_owners(
        self, group: str, client_ids: Collection[str], *, failures: Mapping[str, ClientError] | None = None
    ) -> dict[MessageQueue, str]:
        """Return the client that owns each queue. Omits clients that do not respond."""
        infos, _ = await self.running_infos(group, client_ids, timeout=GLANCE_TIMEOUT, failures=failures)
        return {queue: client_id for client_id, info in infos.items() for queue in info.mq_table}

    async def activity(self, group: str, client_ids: Collection[str]) -> dict[MessageQueue, Activity]:
        """Return the owner of each queue and its position (code 307). Omits clients that do not respond."""
        return (await self.activities(group, client_ids))[0]

    async def activities(
        self, group: str, client_ids: Collection[str]
    ) -> tuple[dict[MessageQueue, Activity], dict[str, ClientError]]:
        """Return the same as `activity`, and the errors of the clients that do not respond, by client id."""
        infos, failures = await self.running_infos(group, client_ids, timeout=GLANCE_TIMEOUT)
        found = {
            queue: Activity(client_id, held.commit_offset, held.last_consume_timestamp)
            for client_id, info in infos.items()
            for queue, held in info.mq_table.items()
        }
        return found, failures

    async def consumer_ids(self, group: str, topic: str) -> tuple[str, ...]:
        """Return the ids of the connected clients of the group that consume the topic."""
        try:
            connection = await self.consumers(group)
        except ConsumerOffline:
            return ()
        if connection.subscription_table and topic not in connection.subscription_table:
            return ()
        return tuple(client.client_id for client in connection.connection_set)

    async def held_offsets(
        self,
        group: str,
        topic: str,
        client_ids: Collection[str],
        *,
        failures: Mapping[str, ClientError] | None = None,
    ) -> dict[str, dict[MessageQueue, int]]:
        """Return client id → its next offset of each queue, committed or not (code 223).

        Omits silent clients.
        """
        operation, timeout = INVOKE_BROKER_TO_GET_CONSUMER_STATUS, STATUS_TIMEOUT

        async def ask_one(client_id: str) -> dict[MessageQueue, int] | None:
            header = GetConsumerStatusRequestHeader(topic=topic, group=group, client_addr=client_id)
            targets = reachable(await self._admin.brokers.masters(), failures)
            answers, _ = await self.ask_each(
                targets, lambda address: self.instance.ask(address, operation, header, None, timeout=timeout)
            )
            tables = [answer.body.consumer_table for answer in answers.values()]
            found = [table[client_id] for table in tables if client_id in table]
            return {queue: offset for part in found for queue, offset in part.items()} if found else None

        found, _ = await gather(client_ids, ask_one)
        return {client_id: table for client_id, table in found.items() if table is not None}

    async def consume_directly(
        self, group: str, client_id: str, message: MessageExt
    ) -> ConsumeMessageDirectlyResult:
        """Make a client consume a stored message (309) without moving offsets. Brokers refuse after 10 s."""
        operation = CONSUME_MESSAGE_DIRECTLY
        header = ConsumeMessageDirectlyResultRequestHeader(
            consumer_group=group,
            client_id=client_id,
            msg_id=message.offset_msg_id,
            broker_name=message.broker_name,
            topic=message.topic,
        )
        (address,) = (await self._admin.brokers.masters(brokers=[message.broker_name])).values()
        timeout = max(RELAY_TIMEOUT, self.instance.timeout)
        return (await self.instance.ask(address, operation, header, b"", timeout=timeout)).body


def merged(answers: list[ConsumerConnection]) -> ConsumerConnection:
    """Return one list, in which a client that is connected to several brokers appears once."""
    connections: dict[str, ClientConnection] = {}
    subscriptions: dict[str, SubscriptionData] = {}
    for answer in answers:
        for connection in answer.connection_set:
            connections.setdefault(connection.client_id, connection)
        subscriptions |= answer.subscription_table
    first = next((answer for answer in answers if answer.connection_set), answers[0])
    return ConsumerConnection(
        connection_set=[connections[client_id] for client_id in sorted(connections)],
        subscription_table=subscriptions,
        consume_type=first.consume_type,
        message_model=first.message_model,
        consume_from_where=first.consume_from_where,
    )
