"""Locks of queues at the broker, which give a queue to one orderly consumer of a group (Java
`RebalanceImpl.lock`).

A broker keeps a lock for 60 s. The client trusts it for 30 s and renews it every 20 s, so the client gives it
up first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import trio

from codec.bodies.offsets import LockBatchRequestBody, UnlockBatchRequestBody
from codec.message_queue import MessageQueue
from codec.operations.clients import LOCK_BATCH_MQ, UNLOCK_BATCH_MQ
from rmqcli.client.errors import ClientError
from rmqcli.client.functions import for_each_broker
from rmqcli.client.push.state import GroupState

LOCK_INTERVAL = 20.0
FIRST_LOCK = 1.0
LOCK_TIMEOUT = 1.0


class Locks:
    """The locks of one consumer. `held`: queues that a broker may have locked for it."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self.held: set[MessageQueue] = set()

    async def run(self) -> None:
        await trio.sleep(FIRST_LOCK)
        while True:
            await self.renew()
            await trio.sleep(LOCK_INTERVAL)

    async def renew(self) -> None:
        queues = [queue for queue, held in self._state.queues.items() if not held.dropped]
        await for_each_broker(self._renew, queues)

    async def _renew(self, queues: list[MessageQueue]) -> None:
        with contextlib.suppress(ClientError):
            granted = await self._ask(queues)
            for queue in queues:
                held = self._state.queues.get(queue)
                if held is None:
                    continue
                if queue in granted:
                    held.lock(self._state.instance.now_ms())
                else:
                    held.unlock()

    async def lock(self, queue: MessageQueue) -> bool:
        """Return True if the broker has locked the queue for this consumer; False also when it cannot be
        asked.
        """
        try:
            granted = queue in await self._ask([queue])
        except ClientError:
            return False
        held = self._state.queues.get(queue)
        if granted and held is not None:
            held.lock(self._state.instance.now_ms())
        return granted

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Return locks; a lock whose broker is not reached expires there."""
        await for_each_broker(self._unlock, self.held.intersection(queues))

    async def _unlock(self, queues: list[MessageQueue]) -> None:
        with contextlib.suppress(ClientError):
            body = UnlockBatchRequestBody(
                consumer_group=self._state.group, client_id=self._state.instance.client_id, mq_set=queues
            )
            address = await self._master(queues[0])
            await self._state.instance.ask(address, UNLOCK_BATCH_MQ, None, body, timeout=LOCK_TIMEOUT)
            self.held.difference_update(queues)

    async def _ask(self, queues: list[MessageQueue]) -> set[MessageQueue]:
        body = LockBatchRequestBody(
            consumer_group=self._state.group, client_id=self._state.instance.client_id, mq_set=queues
        )
        address = await self._master(queues[0])
        # Before the request, because the broker holds the locks also when its reply is lost
        self.held.update(queues)
        answer = await self._state.instance.ask(address, LOCK_BATCH_MQ, None, body, timeout=LOCK_TIMEOUT)
        return set(answer.body.lock_ok_mq_set)

    async def _master(self, queue: MessageQueue) -> str:
        return (await self._state.instance.broker_addresses(queue))[0]
