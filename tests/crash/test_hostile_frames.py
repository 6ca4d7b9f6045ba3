"""Mutants of recorded frames at a broker in a process of its own: it lives, and serves another client.

`--frames` says how many.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
import trio

from rmqcli.client import Producer, PullConsumer, SendStatus
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.message import Message
from tests.codec.mutants import mutated, sources
from tests.codec.wire import KINDS, load_wire, with_length
from tests.crash.real_store import check_sound
from tests.processes import running, up
from tests.support import PATIENCE

ATTACKERS = 4
FRAMES = 20
"""Frames of a connection: most end at the first that is no frame."""
SETTINGS = {"mappedFileSizeCommitLog": 64 << 20, "brokerFastFailureEnable": "false"}
TOPIC = "Honest"
FORBIDDEN = {RequestCode.UPDATE_BROKER_CONFIG}
"""An administrator may tell a broker to serve nobody."""


def frames_of(kind: str) -> list[bytes]:
    codes = {
        frame[4:]: row["code"]
        for row, frame in zip(load_wire(kind).index, load_wire(kind).frames, strict=True)
    }
    return [frame for frame in sources(kind) if codes[frame] not in FORBIDDEN]


class Attack:
    """`left` frames are still to be sent, `sent` were."""

    def __init__(self, address: str, frames: int, chance: random.Random) -> None:
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._chance = chance
        self._sources = [frames_of(kind) for kind in KINDS]
        self.left, self.sent, self.connections = frames, 0, 0

    async def run(self) -> None:
        """Opens connections, one after the other, and sends frames until none are left."""
        while self.left > 0:
            self.left -= FRAMES
            stream = await trio.open_tcp_stream(*self._address)
            self.connections += 1
            async with stream:
                burst = [self._frame() for _ in range(FRAMES)]
                try:
                    await stream.send_all(b"".join(burst))
                    await stream.send_eof()
                    await _read_to_end(stream)
                except trio.BrokenResourceError:
                    pass
            self.sent += FRAMES

    def _frame(self) -> bytes:
        frame = with_length(mutated(self._chance, self._chance.choice(self._sources)))
        if self._chance.random() < 0.01:
            return self._chance.randbytes(4) + frame[4:]
        return frame


async def _read_to_end(stream: trio.SocketStream) -> None:
    """Drops the replies. A broker may hold a connection open for a request that waits."""
    with trio.move_on_after(1):
        while await stream.receive_some(65536):
            pass


async def _served(namesrv: str, attack: Attack) -> int:
    """Sends and reads back one message after the other while the attack goes on. Returns their number."""
    async with (
        Producer("honest", namesrv=namesrv, send_timeout=PATIENCE) as producer,
        PullConsumer(namesrv=namesrv, timeout=PATIENCE) as consumer,
    ):
        for number in count():
            body = b"%d" % number
            sent = await producer.send(Message.of(TOPIC, body))
            assert sent.status is SendStatus.SEND_OK
            found = await consumer.pull(sent.message_queue, sent.queue_offset, 1)
            assert [message.body for message in found.messages] == [body]
            assert found.messages[0].commit_log_offset == parse_offset_msg_id(sent.offset_msg_id)[2]
            if attack.left <= 0:
                return number + 1
            await trio.sleep(0.05)
    raise AssertionError("unreachable")


def test_a_broker_lives_and_serves(
    tmp_path: Path, request: pytest.FixtureRequest, show: Callable[[str], None]
) -> None:
    store = tmp_path / "store"

    async def main(words: dict[str, str]) -> tuple[Attack, int]:
        attack = Attack(words["broker"], request.config.getoption("--frames"), random.Random(2300))
        async with trio.open_nursery() as nursery:
            for _ in range(ATTACKERS):
                nursery.start_soon(attack.run)
            return attack, await _served(words["namesrv"], attack)

    with running(up(store, SETTINGS)) as (process, words):
        attack, served = trio.run(main, words)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    check_sound(store)
    show(f"{attack.sent} frames on {attack.connections} connections, {served} messages of another client")
