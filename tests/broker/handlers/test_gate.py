"""Nothing reaches a handler, a run of sends or a fast path without passing the gate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.broker import handlers
from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import NotReady, Refusal
from rmqcli.broker.handlers import HANDLERS, direct_readers, handler_table, run_table
from rmqcli.broker.handlers.send import send_run
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import Session
from rmqcli.codec.codes import RPC_ONEWAY, RequestCode, ResponseCode, SerializeType
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import encode_frame
from tests.broker.serving import Wire
from tests.broker.support import FakeBroker, fake_broker, long_header, send_header

SIGNED = {"AccessKey": "RocketMQ", "Signature": "abc="}
NOTHING_MORE: Mapping[str, str] = {}
GateFunction = Callable[[Session, RemotingCommand], None]


class Watch:
    """A gate that notes what it saw, and refuses those whose opaque number is in `refused`."""

    def __init__(self, *refused: int) -> None:
        self.refused = refused
        self.seen: list[RemotingCommand] = []

    def __call__(self, _session: Session, command: RemotingCommand) -> None:
        self.seen.append(command)
        if command.opaque in self.refused:
            raise Refusal(ResponseCode.NO_PERMISSION, "refused at the gate")

    @property
    def opaques(self) -> list[int]:
        return [command.opaque for command in self.seen]


def send_frame(
    opaque: int,
    *,
    code: int = 310,
    flag: int = 0,
    kind: SerializeType = SerializeType.JSON,
    more: Mapping[str, str] = NOTHING_MORE,
) -> bytes:
    header = send_header("T", {"UNIQ_KEY": f"{opaque:032X}"})
    ext = to_ext(long_header(header) if code == RequestCode.SEND_MESSAGE else header)
    return encode_frame(RemotingCommand(code, {**ext, **more}, b"hello", opaque, flag, serialize_type=kind))


async def served(broker: FakeBroker, gate: GateFunction, *frames: bytes) -> dict[int, RemotingCommand]:
    """The replies to frames that came in one read, by opaque number."""
    wire = Wire(b"".join(frames))
    context = broker.context
    runs = run_table(context)
    server = Server(
        handler_table(context), batches=context.store, direct=direct_readers(gated=True), runs=runs, gate=gate
    )
    await server.serve_transport(wire)
    return {reply.opaque: reply for reply in wire.replies()}


def stored(broker: FakeBroker) -> int:
    return broker.context.store.search.max_offset("T", 0)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[FakeBroker]:
    async with fake_broker(tmp_path) as broker:
        await broker.client().send("T")  # the topic is known and checked: the next sends may be a run
        yield broker


KINDS = pytest.mark.parametrize("kind", list(SerializeType), ids=lambda kind: kind.name)
CODES = pytest.mark.parametrize("code", [10, 310, 320])


@KINDS
@CODES
@pytest.mark.parametrize("count", [1, 2, 33])
async def test_no_send_gets_past_a_gate_that_refuses(
    broker: FakeBroker, code: int, kind: SerializeType, count: int
) -> None:
    gate = Watch(*range(count))
    frames = [send_frame(n, code=code, kind=kind) for n in range(count)]
    replies = await served(broker, gate, *frames)
    assert {(r.code, r.remark) for r in replies.values()} == {(16, "refused at the gate")}
    assert sorted(replies) == gate.opaques == list(range(count))
    assert stored(broker) == 1


@KINDS
async def test_each_request_of_a_run_passes_once(broker: FakeBroker, kind: SerializeType) -> None:
    gate = Watch(3, 4, 9)
    replies = await served(broker, gate, *(send_frame(n, kind=kind) for n in range(40)))
    assert gate.opaques == list(range(40))
    assert sorted(n for n, reply in replies.items() if reply.code) == [3, 4, 9]
    assert list(replies) == list(range(40)), "replies keep the order of the requests"
    assert stored(broker) == 1 + 37


async def test_a_read_of_admitted_sends_is_a_run(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is refused ends the run before it."""
    ran: list[int] = []

    def run(context: BrokerContext, session: Session, requests: Any) -> int:
        ran.append(send_run(context, session, requests))
        return ran[-1]

    monkeypatch.setattr(handlers, "send_run", run)
    replies = await served(broker, Watch(20), *(send_frame(n, more=SIGNED) for n in range(32)))
    assert [n for n, reply in replies.items() if reply.code] == [20]
    assert sum(ran) >= 29, "the first teaches"
    assert stored(broker) == 1 + 31


async def test_what_a_run_does_not_accept_passes_once(broker: FakeBroker) -> None:
    gate = Watch(5)
    frames = [send_frame(n, more=SIGNED if n in {2, 6} else NOTHING_MORE) for n in range(8)]
    replies = await served(broker, gate, *frames)
    assert gate.opaques == list(range(8))
    assert [n for n, reply in replies.items() if reply.code] == [5]
    assert stored(broker) == 1 + 7


async def test_a_run_that_waits_for_the_disk_keeps_its_order_and_passes_once() -> None:
    """The third of six requests needs a file first; the last one is refused."""
    handled: list[int] = []
    waited: list[int] = []
    runs: list[list[int]] = []

    def send_one(_session: Session, command: RemotingCommand) -> RemotingCommand:
        async def ready() -> None:
            await trio.lowlevel.checkpoint()
            waited.append(command.opaque)

        if command.opaque == 2 and not waited:
            raise NotReady(ready, in_order=True)
        handled.append(command.opaque)
        return command.reply(ResponseCode.SUCCESS)

    def run(session: Session, commands: Sequence[RemotingCommand]) -> int:
        ready = list(takewhile(lambda command: command.opaque != 2 or waited, commands[:2]))
        runs.append([command.opaque for command in ready])
        session.queue_reply(b"".join(encode_frame(send_one(session, command)) for command in ready))
        return len(ready)

    gate = Watch(5)
    wire = Wire(b"".join(send_frame(n) for n in range(8)))
    await Server({310: send_one}, runs={310: run}, gate=gate).serve_transport(wire)
    assert gate.opaques == list(range(8))
    assert handled == [0, 1, 2, 3, 4, 6, 7]
    assert runs == [[0, 1], [], [3, 4], [6, 7]]
    assert {reply.opaque: reply.code for reply in wire.replies()} == {
        n: 16 if n == 5 else 0 for n in range(8)
    }


async def test_a_one_way_send_is_refused_in_silence(broker: FakeBroker) -> None:
    gate = Watch(1)
    assert await served(broker, gate, send_frame(0, flag=RPC_ONEWAY), send_frame(1, flag=RPC_ONEWAY)) == {}
    assert gate.opaques == [0, 1]
    assert stored(broker) == 2


@KINDS
@pytest.mark.parametrize("count", [1, 3])
async def test_the_ext_fields_of_a_signature_arrive(
    broker: FakeBroker, kind: SerializeType, count: int
) -> None:
    gate = Watch()
    frames = [send_frame(n, kind=kind, more=SIGNED) for n in range(count)]
    replies = await served(broker, gate, *frames)
    expected = {**to_ext(send_header("T", {"UNIQ_KEY": f"{0:032X}"})), **SIGNED}
    assert gate.seen[0].ext_fields == expected
    assert gate.seen[0].header is None
    assert [reply.code for reply in replies.values()] == [0] * count
    assert stored(broker) == 1 + count


async def test_an_unsigned_send_comes_with_its_typed_header(broker: FakeBroker) -> None:
    gate = Watch()
    await served(broker, gate, send_frame(0))
    assert isinstance(gate.seen[0].header, SendMessageRequestHeaderV2)


async def test_every_code_passes_the_gate(broker: FakeBroker) -> None:
    for code in (*sorted(HANDLERS), RequestCode.POLLING_INFO, 77):
        replies = await served(broker, Watch(1), encode_frame(RemotingCommand(code, {}, b"", 1)))
        assert (replies[1].code, replies[1].remark) == (16, "refused at the gate"), code


async def test_a_response_is_no_request(broker: FakeBroker) -> None:
    gate = Watch()
    frames = [encode_frame(RemotingCommand(310, {}, b"", n).reply(310)) for n in range(2)]
    assert await served(broker, gate, *frames) == {}
    assert gate.seen == []


async def test_a_bug_in_the_gate_admits_nothing(broker: FakeBroker) -> None:
    def gate(_session: Session, _command: RemotingCommand) -> None:
        raise ZeroDivisionError("a bug")

    replies = await served(broker, gate, *(send_frame(n) for n in range(3)))
    assert {reply.remark for reply in replies.values()} == {"ZeroDivisionError: a bug"}
    assert len(replies) == 3
    assert stored(broker) == 1
