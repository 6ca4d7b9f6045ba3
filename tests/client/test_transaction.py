"""Half messages, their outcomes, and checks."""

from __future__ import annotations

import random
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from rmqcli.client import BrokerRefused, ClientInstance, SendStatus, TransactionProducer, TransactionState
from rmqcli.client.wire.messages import SMALL_PLAIN
from rmqcli.codec.codes import MessageSysFlag, RequestCode
from rmqcli.codec.compression import compress, decompress
from rmqcli.codec.headers.base import from_ext, to_ext
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.headers.transactions import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.properties import decode_properties, encode_properties
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.scripted import Network, ok, refuse
from tests.client.sending import NAMESRV, SEND, TOPIC, Cluster, flush_timeout
from tests.codec.samples import make_record
from tests.support import PATIENCE

END = RequestCode.END_TRANSACTION
COMMIT, ROLLBACK, UNKNOW = (
    TransactionState.COMMIT_MESSAGE,
    TransactionState.ROLLBACK_MESSAGE,
    TransactionState.UNKNOW,
)


@pytest.fixture
def cluster(network: Network) -> Cluster:
    return Cluster(network, {TOPIC: {"broker-a": 1}})


async def never_asked(message: MessageExt) -> TransactionState:
    raise AssertionError("nobody asked")


@asynccontextmanager
async def transacting(
    cluster: Cluster, check: Any = never_asked, **options: Any
) -> AsyncIterator[TransactionProducer]:
    async with TransactionProducer(
        "TG", check, namesrv=NAMESRV, open_stream=cluster.network.open_stream, **options
    ) as producer:
        yield producer


async def ends(cluster: Cluster) -> list[RemotingCommand]:
    await trio.testing.wait_all_tasks_blocked()
    return [command for command in cluster.a.asked if command.code == END]


def end_header(command: RemotingCommand) -> EndTransactionRequestHeader:
    return from_ext(EndTransactionRequestHeader, command.ext_fields)


@pytest.mark.parametrize(
    ("said", "code", "state"),
    [(COMMIT, 8, COMMIT), (ROLLBACK, 12, ROLLBACK), (UNKNOW, 0, UNKNOW), (None, 0, UNKNOW)],
)
async def test_the_outcome_is_sent(
    cluster: Cluster, said: Any, code: int, state: TransactionState, autojump_clock: Any
) -> None:
    seen: list[Message] = []

    async def local(message: Message) -> Any:
        seen.append(message)
        assert len(cluster.sends()) == 1
        return said

    async with transacting(cluster) as producer:
        result = await producer.send_in_transaction(Message.of(TOPIC, b"x", delay_level=3, tags="t"), local)
        (end,) = await ends(cluster)
    fields = from_ext(SendMessageRequestHeaderV2, cluster.sends()[0].ext_fields)
    properties = decode_properties(fields.properties or "")
    assert fields.sys_flag == MessageSysFlag.TRANSACTION_PREPARED
    assert properties == {"TRAN_MSG": "true", "PGROUP": "TG", "TAGS": "t", "UNIQ_KEY": result.sent.msg_id}
    assert seen[0].uniq_key == result.sent.msg_id
    assert (result.state, result.outcome_sent) == (state, True)
    header = end_header(end)
    assert end.is_oneway
    assert (header.commit_or_rollback, header.from_transaction_check) == (code, False)
    assert (header.producer_group, header.tran_state_table_offset, header.commit_log_offset) == ("TG", 7, 0)
    assert (header.msg_id, header.transaction_id, header.bname) == (
        result.sent.msg_id,
        result.sent.msg_id,
        "broker-a",
    )


async def test_a_plain_function_runs_in_a_thread(cluster: Cluster) -> None:
    threads = []

    def local(message: Message) -> TransactionState:
        threads.append(threading.current_thread())
        return COMMIT

    async with transacting(cluster, timeout=PATIENCE, send_timeout=PATIENCE) as producer:
        assert (await producer.send_in_transaction(Message.of(TOPIC, b"x"), local)).state is COMMIT
    assert threads != [threading.current_thread()]


async def test_exceptions_of_the_local_transaction(cluster: Cluster, autojump_clock: Any) -> None:
    async def local(message: Message) -> TransactionState:
        raise LookupError("no row")

    async with transacting(cluster) as producer:
        with pytest.raises(LookupError, match="no row"):
            await producer.send_in_transaction(Message.of(TOPIC, b"x"), local)
        (end,) = await ends(cluster)
    assert end_header(end).commit_or_rollback == 0
    assert end.remark == "executeLocalTransactionBranch exception: no row"


async def test_not_stored_as_promised_is_rolled_back(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = flush_timeout
    async with transacting(cluster) as producer:
        message = Message.of(TOPIC, b"x")
        result = await producer.send_in_transaction(message, never_asked)  # type: ignore[arg-type]
        (end,) = await ends(cluster)
    assert (result.sent.status, result.state) == (SendStatus.FLUSH_DISK_TIMEOUT, ROLLBACK)
    assert end_header(end).commit_or_rollback == 12


async def test_not_stored_at_all(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = refuse(16, "no transactions here")
    async with transacting(cluster) as producer:
        with pytest.raises(BrokerRefused, match="no transactions here"):
            await producer.send_in_transaction(Message.of(TOPIC, b"x"), never_asked)  # type: ignore[arg-type]
        assert await ends(cluster) == []


async def test_an_outcome_is_sent_even_when_cancelled(cluster: Cluster, autojump_clock: Any) -> None:
    async with transacting(cluster) as producer:
        with trio.CancelScope() as scope:

            async def local(message: Message) -> TransactionState:
                scope.cancel()
                return COMMIT

            await producer.send_in_transaction(Message.of(TOPIC, b"x"), local)
        (end,) = await ends(cluster)
    assert end_header(end).commit_or_rollback == 8


@pytest.mark.parametrize("first", [0, 15, 30])
async def test_cancelled_at_every_step(cluster: Cluster, first: int, autojump_clock: Any) -> None:
    """A known outcome is sent: a local transaction that ended has its outcome at the broker."""
    ended: list[str] = []

    async def local(message: Message) -> TransactionState:
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        ended.append(message.uniq_key or "")
        return COMMIT

    async def cancel_after(steps: int, scope: trio.CancelScope) -> None:
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        scope.cancel()

    for steps in range(first, first + 15):
        async with transacting(cluster) as producer, trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                nursery.start_soon(cancel_after, steps, scope)
                await producer.send_in_transaction(Message.of(TOPIC, b"x"), local)
    told = [end_header(end) for end in await ends(cluster)]
    assert [header.msg_id for header in told] == ended
    assert {header.commit_or_rollback for header in told} <= {8}
    assert (len(ended) > 0) or first == 0


async def test_a_broker_that_is_gone_will_ask(cluster: Cluster, autojump_clock: Any) -> None:
    async def local(message: Message) -> TransactionState:
        cluster.a.refuses = True
        await cluster.a.drop()
        await trio.testing.wait_all_tasks_blocked()
        return COMMIT

    async with transacting(cluster) as producer:
        result = await producer.send_in_transaction(Message.of(TOPIC, b"x"), local)
    assert (result.state, result.outcome_sent) == (COMMIT, False)


def check_request(
    group: str = "TG", uniq_key: str = "id1", offset: int = 900, body: bytes = b"body", sys_flag: int = 0
) -> RemotingCommand:
    properties = {"PGROUP": group, "UNIQ_KEY": uniq_key, "TRAN_MSG": "true"}
    half = make_record(
        topic=TOPIC.encode(), sys_flag=sys_flag, body=body, properties=encode_properties(properties)
    )
    header = CheckTransactionStateRequestHeader(
        tran_state_table_offset=33, commit_log_offset=offset, msg_id=uniq_key, transaction_id=uniq_key
    )
    return RemotingCommand(RequestCode.CHECK_TRANSACTION_STATE, to_ext(header), half, 1, 2)


async def connected(cluster: Cluster, producer: TransactionProducer) -> None:
    await producer.message_queues(TOPIC)
    await producer.instance.heartbeats.send_all()


@pytest.mark.parametrize(("said", "code"), [(COMMIT, 8), (ROLLBACK, 12), (UNKNOW, 0), (None, 0)])
async def test_a_check_is_answered(cluster: Cluster, said: Any, code: int, autojump_clock: Any) -> None:
    asked: list[MessageExt] = []

    async def check(message: MessageExt) -> Any:
        asked.append(message)
        return said

    async with transacting(cluster, check) as producer:
        await connected(cluster, producer)
        await cluster.a.push(check_request())
        (end,) = await ends(cluster)
    header = end_header(end)
    assert [(m.body, m.queue_id, m.msg_id) for m in asked] == [(b"body", 1, "id1")]
    assert end.is_oneway
    assert (header.commit_or_rollback, header.from_transaction_check) == (code, True)
    assert (header.tran_state_table_offset, header.commit_log_offset) == (33, 900)
    assert (header.producer_group, header.msg_id, header.transaction_id) == ("TG", "id1", "id1")


async def test_the_message_of_a_check_is_decompressed_in_a_worker(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that cannot be decompressed is not checked."""
    plain = random.Random(1).randbytes(SMALL_PLAIN).hex().encode()
    packed, bits = compress(plain)
    asked: list[bytes] = []
    all_asked = trio.Event()
    threads: list[int] = []

    async def check(message: MessageExt) -> TransactionState:
        asked.append(message.body)
        if len(asked) == 3:
            all_asked.set()
        return COMMIT

    def noted(*arguments: Any, **options: Any) -> bytes:
        found = decompress(*arguments, **options)
        threads.append(threading.get_ident())
        return found

    monkeypatch.setattr("rmqcli.client.wire.messages.decompress", noted)
    async with transacting(cluster, check, timeout=PATIENCE) as producer:
        await connected(cluster, producer)
        await cluster.a.push(check_request(body=packed, sys_flag=bits))
        await cluster.a.push(check_request(uniq_key="id2"))
        await cluster.a.push(check_request(uniq_key="id3", body=b"no", sys_flag=bits))
        await cluster.a.push(check_request(uniq_key="id4"))
        with trio.fail_after(PATIENCE):
            await all_asked.wait()
    assert sorted(asked) == sorted([b"body", b"body", plain])
    (thread,) = threads
    assert thread != threading.get_ident()


@pytest.mark.parametrize("gone", [False, True])
async def test_whoever_wants_hears_how_a_check_was_answered(
    cluster: Cluster, gone: bool, autojump_clock: Any
) -> None:
    answered: list[tuple[str, TransactionState, bool]] = []

    async def check(message: MessageExt) -> TransactionState:
        if gone:
            cluster.a.refuses = True
            await cluster.a.drop()
            await trio.testing.wait_all_tasks_blocked()
        return COMMIT

    def hear(message: MessageExt, state: TransactionState, told: bool) -> None:
        answered.append((message.msg_id, state, told))

    async with transacting(cluster, check, on_answered=hear) as producer:
        await connected(cluster, producer)
        await cluster.a.push(check_request())
        await trio.sleep(10)
    assert answered == [("id1", COMMIT, not gone)]


async def test_a_callback_that_raises_ends_no_other_check(
    cluster: Cluster, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(message: MessageExt) -> TransactionState:
        return COMMIT

    def hear(message: MessageExt, state: TransactionState, told: bool) -> None:
        raise LookupError("no row")

    async with transacting(cluster, check, on_answered=hear) as producer:
        await connected(cluster, producer)
        for number in range(2):
            await cluster.a.push(check_request(uniq_key=str(number)))
        assert len(await ends(cluster)) == 2
    assert "no row" in caplog.text


async def test_a_check_that_raises_knows_nothing_and_the_next_is_answered(
    cluster: Cluster, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(message: MessageExt) -> TransactionState:
        if message.msg_id == "bad":
            raise LookupError("no row")
        return COMMIT

    async with transacting(cluster, check) as producer:
        await connected(cluster, producer)
        await cluster.a.push(check_request(uniq_key="bad"))
        await cluster.a.push(check_request(uniq_key="good"))
        first, second = await ends(cluster)
    assert (end_header(first).commit_or_rollback, first.remark) == (
        0,
        "checkLocalTransactionState Exception: no row",
    )
    assert (end_header(second).commit_or_rollback, second.remark) == (8, None)
    assert "the transaction check of bad failed" in caplog.text


@pytest.mark.parametrize("checks", [1, 3])
async def test_so_many_checks_at_once(cluster: Cluster, checks: int, autojump_clock: Any) -> None:
    at_once = most = 0

    async def check(message: MessageExt) -> TransactionState:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await trio.sleep(1)
        at_once -= 1
        return COMMIT

    async with transacting(cluster, check, checks=checks) as producer:
        await connected(cluster, producer)
        for number in range(6):
            await cluster.a.push(check_request(uniq_key=str(number)))
        await trio.sleep(10)
        assert len(await ends(cluster)) == 6
    assert most == checks


async def test_two_groups_on_one_instance(cluster: Cluster, autojump_clock: Any) -> None:
    asked: list[str] = []

    def answering(name: str) -> Any:
        async def check(message: MessageExt) -> TransactionState:
            asked.append(name)
            return COMMIT

        return check

    async with (
        ClientInstance(NAMESRV, open_stream=cluster.network.open_stream) as instance,
        TransactionProducer("G1", answering("one"), instance=instance) as first,
        TransactionProducer("G2", answering("two"), instance=instance),
    ):
        await connected(cluster, first)
        await cluster.a.push(check_request("G2"))
        await cluster.a.push(check_request("G1"))
        await cluster.a.push(check_request("unknown"))
        found = [end_header(end).producer_group for end in await ends(cluster)]
    assert sorted(found) == ["G1", "G2"]
    assert sorted(asked) == ["one", "two"]
    assert not instance.requests.codes


@pytest.mark.parametrize("body", [b"", b"nonsense"])
async def test_a_check_that_cannot_be_read_is_left(
    cluster: Cluster, body: bytes, autojump_clock: Any
) -> None:
    async with transacting(cluster) as producer:
        await connected(cluster, producer)
        broken = check_request()
        broken.body = body
        await cluster.a.push(broken)
        assert await ends(cluster) == []
        cluster.a.replies[RequestCode.GET_MIN_OFFSET] = ok({"offset": "0"})
        await producer.send(Message.of(TOPIC, b"still there"))


async def test_more_checks_than_may_wait(cluster: Cluster, autojump_clock: Any) -> None:
    asked: list[str] = []

    async def check(message: MessageExt) -> TransactionState:
        asked.append(message.msg_id)
        await trio.sleep(1)
        return COMMIT

    async with transacting(cluster, check, checks_waiting=2) as producer:
        await connected(cluster, producer)
        await cluster.a.push(check_request(uniq_key="0"))
        await trio.testing.wait_all_tasks_blocked()
        for number in range(1, 6):
            await cluster.a.push(check_request(uniq_key=str(number)))
        await trio.sleep(10)
    assert asked == ["0", "1", "2"]


async def test_a_result_that_is_not_an_outcome(cluster: Cluster, autojump_clock: Any) -> None:
    async def local(message: Message) -> Any:
        return True

    async with transacting(cluster) as producer:
        with pytest.raises(TypeError, match="a TransactionState is expected, not True"):
            await producer.send_in_transaction(Message.of(TOPIC, b"x"), local)
        (end,) = await ends(cluster)
    assert end_header(end).commit_or_rollback == 0


async def test_an_answer_without_a_place_cannot_be_ended(cluster: Cluster, autojump_clock: Any) -> None:
    def placeless(command: RemotingCommand) -> RemotingCommand:
        return command.reply(0, None, {"msgId": "nonsense", "queueId": "0", "queueOffset": "1"})

    async def local(message: Message) -> TransactionState:
        return COMMIT

    cluster.a.replies[SEND] = placeless
    async with transacting(cluster) as producer:
        result = await producer.send_in_transaction(Message.of(TOPIC, b"x"), local)
        assert await ends(cluster) == []
    assert (result.state, result.outcome_sent) == (COMMIT, False)
