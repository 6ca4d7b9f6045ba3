"""Requests of the broker to running consumers, for an administrator."""

from __future__ import annotations

from pathlib import Path

import trio

from rmqcli.broker.errors import RemoteClosed
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from rmqcli.codec.codes import LanguageCode
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.records.reading import decode_records
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.support import START_MS, Client, FakeBroker, fake_broker

RESET = {"topic": "T", "group": "G", "timestamp": "-1", "isForce": "true"}
STATUS = {"topic": "T", "group": "G"}
INFO = {"consumerGroup": "G", "clientId": "client-40001", "jstackEnable": "false"}
QUEUE = MessageQueue("T", "broker-a", 0)


async def prepared(broker: FakeBroker, **options: int) -> tuple[Client, Client]:
    """An administrator, and a consumer of one queue whose group has committed 1 of 3 messages."""
    admin, consumer = broker.client(), broker.client(**options)
    await admin.ask(
        17, {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    )
    for _ in range(3):
        await admin.send("T", b"job")
    await admin.ask(15, {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"})
    await consumer.heartbeat("G", "T")
    consumer.session.pushed.clear()
    return admin, consumer


async def test_a_reset_tells_every_client_in_the_form_that_go_reads(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        admin, consumer = await prepared(broker)
        reply = await admin.ask(222, RESET)
        assert (reply.code, reply.remark) == (0, "not set any response code")
        assert decode_body(ResetOffsetBody, reply.body).offset_table == {QUEUE: 3}
        (pushed,) = consumer.session.pushed
        assert pushed.code == 220
        assert pushed.body == b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:3}}'
        assert pushed.ext_fields == {"topic": "T", "group": "G", "timestamp": "-1", "isForce": "false"}
        assert broker.context.offsets.query("G", "T", 0) == 1, "the client moves its offsets itself"


async def test_a_reset_moves_the_queues_that_are_read(tmp_path: Path) -> None:
    """A queue that is only written has no offset of the group, which must not stop the reset of the others."""
    async with fake_broker(tmp_path) as broker:
        admin, _ = await prepared(broker)
        numbers = {"topic": "T", "defaultTopic": "TBW102", "perm": "6"}
        await admin.ask(17, numbers | {"readQueueNums": "1", "writeQueueNums": "2"})
        assert decode_body(ResetOffsetBody, (await admin.ask(222, RESET)).body).offset_table == {QUEUE: 3}
        await admin.ask(17, numbers | {"readQueueNums": "1", "writeQueueNums": "0"})
        assert decode_body(ResetOffsetBody, (await admin.ask(222, RESET)).body).offset_table == {QUEUE: 3}


async def test_a_reset_asked_by_cpp_is_a_list(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        _, consumer = await prepared(broker)
        await broker.client(language=int(LanguageCode.CPP)).ask(222, RESET)
        assert consumer.session.pushed[0].body == (
            b'{"offsetTable":[{"brokerName":"broker-a","offset":3,"queueId":0,"topic":"T"}]}'
        )


async def test_a_reset_goes_forward_only_by_force(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        admin, _ = await prepared(broker)
        gentle = await admin.ask(222, RESET | {"isForce": "false"})
        assert decode_body(ResetOffsetBody, gentle.body).offset_table == {QUEUE: 1}
        back = await admin.ask(222, RESET | {"isForce": "false", "timestamp": str(START_MS - 1)})
        assert decode_body(ResetOffsetBody, back.body).offset_table == {QUEUE: 0}


async def test_one_queue_is_reset_to_an_offset(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        admin, consumer = await prepared(broker)
        for offset in (2, 0, 3):
            reply = await admin.ask(222, RESET | {"queueId": "0", "offset": str(offset)})
            assert decode_body(ResetOffsetBody, reply.body).offset_table == {QUEUE: offset}
            queue = b'{"brokerName":"broker-a","queueId":0,"topic":"T"}'
            assert consumer.session.pushed.pop().body == b'{"offsetTable":{%b:%d}}' % (queue, offset)
        whole = await admin.ask(222, RESET | {"queueId": "-1", "offset": "-1"})
        assert decode_body(ResetOffsetBody, whole.body).offset_table == {QUEUE: 3}
        consumer.session.pushed.clear()
        for queue_id, offset, remark in (
            (0, 4, "Target offset 4 should be in range [0-3]"),
            (1, 0, "topic T has 1 queues, no queue 1"),
        ):
            refused = await admin.ask(222, RESET | {"queueId": str(queue_id), "offset": str(offset)})
            assert (refused.code, refused.remark) == (1, remark)
        assert b"useServerSideResetOffset=true" in (await admin.ask(26)).body
        await admin.ask(25, None, b"useServerSideResetOffset=false")
        assert (await admin.ask(222, RESET | {"queueId": "0", "offset": "1"})).code == 1
        assert consumer.session.pushed == []


async def test_resets_that_are_refused(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        admin, consumer = await prepared(broker, version=20)
        old = await admin.ask(222, RESET)
        assert (old.code, old.remark) == (
            1,
            "the client does not support this feature. version=V3_0_3_SNAPSHOT",
        )
        unknown = await admin.ask(222, RESET | {"group": "Other"})
        assert (unknown.code, unknown.remark) == (1, "THe consumer group <Other> not exist")
        assert (await admin.ask(222, RESET | {"topic": "None"})).code == 1
        consumer.session.close()
        offline = await admin.ask(222, RESET)
        assert (offline.code, offline.remark) == (
            206,
            "Consumer not online, so can not reset offset, Group: G Topic: T Timestamp: -1",
        )


async def test_offsets_held_by_clients(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        admin, consumer = await prepared(broker)
        for _ in range(3):
            silent = broker.client()
            await silent.heartbeat("G", "T")
        body = (
            b'{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:2},"consumerTable":{}}'
        )
        consumer.session.answers[221] = lambda command: command.reply(0, None, None, body)
        with trio.fail_after(5.1):
            reply = await admin.wait(admin.post(223, STATUS))
        status = decode_body(GetConsumerStatusBody, reply.body)
        assert status.consumer_table == {"client-40001": {QUEUE: 2}}
        only = await admin.wait(admin.post(223, STATUS | {"clientAddr": "nobody"}))
        assert decode_body(GetConsumerStatusBody, only.body).consumer_table == {}
        none = await admin.ask(223, STATUS | {"group": "Other"})
        assert (none.code, none.remark) == (1, "No Any Consumer online in the consumer group: [Other]")


async def test_running_info_is_relayed(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        admin, consumer = await prepared(broker)
        consumer.session.answers[307] = lambda command: command.reply(0, "a remark", None, b'{"x":1}')
        reply = await admin.wait(admin.post(307, INFO))
        assert (reply.code, reply.remark, reply.body) == (0, "a remark", b'{"x":1}')
        assert dict(consumer.session.pushed[0].ext_fields or {}) == INFO
        unknown = await admin.ask(307, INFO | {"clientId": "nobody"})
        assert (unknown.code, unknown.remark) == (1, "The Consumer <G> <nobody> not online")


async def test_a_relay_that_is_not_answered_times_out(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        admin, _ = await prepared(broker)
        start = trio.current_time()
        reply = await admin.wait(admin.post(307, INFO))
        assert (reply.code, (reply.remark or "")[:38]) == (207, "consumer <G> <client-40001> Timeout: n")
        assert 10 <= trio.current_time() - start < 11


async def test_a_relay_to_a_client_that_goes_away(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    def gone(command: RemotingCommand) -> RemotingCommand:
        raise RemoteClosed("it went away")

    async with fake_broker(tmp_path) as broker:
        admin, consumer = await prepared(broker)
        consumer.session.answers[307] = gone
        reply = await admin.wait(admin.post(307, INFO))
        remark = "invoke consumer <G> <client-40001> Exception: it went away"
        assert (reply.code, reply.remark) == (1, remark)


async def test_clients_too_old_to_be_asked(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        admin, _ = await prepared(broker, version=50)
        assert "too low to finish" in ((await admin.ask(307, INFO)).remark or "")


async def test_a_message_is_given_to_one_consumer(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        admin, consumer = await prepared(broker)
        given: list[RemotingCommand] = []

        def consume(command: RemotingCommand) -> RemotingCommand:
            given.append(command)
            return command.reply(0, None, None, b'{"consumeResult":"CR_SUCCESS"}')

        consumer.session.answers[309] = consume
        (message, *_) = await admin.pulled("T")
        header = {"consumerGroup": "G", "clientId": "client-40001", "msgId": message.offset_msg_id}
        reply = await admin.wait(admin.post(309, header))
        assert reply.body == b'{"consumeResult":"CR_SUCCESS"}'
        assert decode_records(bytes(given[0].body)) == [message]
        assert (given[0].ext_fields or {})["brokerName"] == "broker-a", "the client puts it into the message"
        missing = header | {"msgId": "7F00000100002A9F0000000000FFFFFF"}
        assert (await admin.ask(309, missing)).code == 1
        for text in ("", "nonsense"):
            unreadable = await admin.ask(309, header | {"msgId": text})
            assert unreadable.code == 1
            assert (unreadable.remark or "").startswith("msgId: ")
