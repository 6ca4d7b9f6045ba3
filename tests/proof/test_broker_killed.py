"""A broker that is killed under a running group and restarted: the group continues without loss."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from rmqcli.client import ClientError, Producer
from rmqcli.codec.message import Message
from tests.foreign.install import ALI_ONS, CPP1_CTYPES
from tests.proof.group import Group, Server, rmq
from tests.proof.journal import wait_for_work, wait_until
from tests.support import PATIENCE

BEFORE = 400
AFTER = 800
LANES = 4
PAUSE = 0.01


class Sending:
    """Sends until told to stop; `acked` holds the bodies that the broker acknowledged."""

    def __init__(self, server: Server, topic: str) -> None:
        self._server, self._topic = server, topic
        self._stop = threading.Event()
        self.acked: set[str] = set()
        self.refused = 0

    async def run(self) -> None:
        async with (
            Producer("proof", namesrv=self._server.namesrv, send_timeout=2.0) as producer,
            trio.open_nursery() as nursery,
        ):
            for lane in range(LANES):
                nursery.start_soon(self._lane, producer, lane)

    async def _lane(self, producer: Producer, lane: int) -> None:
        number = 0
        while not self._stop.is_set():
            body = f"{lane}-{number}"
            number += 1
            try:
                await producer.send(Message.of(self._topic, body.encode()))
            except ClientError:
                self.refused += 1
            else:
                self.acked.add(body)
            await trio.sleep(PAUSE)

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        thread = threading.Thread(target=trio.run, args=(self.run,))
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(PATIENCE)


def test_the_group_goes_on(
    installed: None, own_server: Server, tmp_path: Path, show: Callable[[str], None]
) -> None:
    rmq(own_server.namesrv, "topic", "create", "lasting", "--queues", "8")
    sending = Sending(own_server, "lasting")
    with Group(own_server, "lasting", tmp_path / "group") as group:
        group.join_rmq("rmq-1")
        group.join_rmq("rmq-2")
        group.join_foreign(ALI_ONS)
        group.join_foreign(CPP1_CTYPES)
        group.wait_joined()
        journal = group.journal
        with sending.in_thread():
            wait_until(lambda: len(sending.acked) >= BEFORE, lambda: f"{len(sending.acked)} sent")
            wait_for_work(journal, group.members, 1)
            own_server.kill()
            own_server.start()
            again = len(sending.acked) + AFTER
            wait_until(lambda: len(sending.acked) >= again, lambda: f"{len(sending.acked)} of {again}")
        missing = sending.acked - journal.bodies
        wait_until(
            lambda: sending.acked <= journal.bodies,
            lambda: (
                f"{len(sending.acked - journal.bodies)} are missing; {journal.summary(len(sending.acked))}"
            ),
        )
        show(
            f"{journal.summary(len(sending.acked))}; {sending.refused} sends failed, {len(missing)} came later"
        )
        assert {name for name, process in group.members.items() if process.poll() is not None} == set()
