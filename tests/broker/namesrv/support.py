"""A name server's handlers without sockets."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import trio

from rmqcli.broker.config import NamesrvConfig
from rmqcli.broker.errors import NotReady, Refusal
from rmqcli.broker.namesrv.kv_config import KVConfig
from rmqcli.broker.namesrv.node import bound_handlers
from rmqcli.broker.namesrv.state import NameServerState
from rmqcli.codec.bodies.config import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqcli.codec.bodies.registration import RegisterBrokerBody
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.core.hashing import crc32
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import decode_frame
from tests.broker.support import FakeSession, done

NO_FILES = NamesrvConfig(kv_config_path=None, config_store_path=None)


class NameServerUnderTest:
    """Handlers over a state of their own; `now` is the clock in ms."""

    def __init__(self, config: NamesrvConfig = NO_FILES, kv: KVConfig | None = None) -> None:
        self.now = 1_000_000
        self.state = NameServerState(config, kv or KVConfig(), lambda: self.now)
        self.handlers = bound_handlers(self.state)
        self.session = FakeSession()

    def ask(
        self,
        code: RequestCode,
        body: bytes = b"",
        *,
        session: FakeSession | None = None,
        version: int = 409,
        **ext: str,
    ) -> RemotingCommand:
        request = RemotingCommand(code, ext, body, version=version)
        return self.handle(request, session)

    def handle(self, request: RemotingCommand, session: FakeSession | None = None) -> RemotingCommand:
        handler: Any = self.handlers[request.code]
        reply: Any = None
        while handler is not None:
            try:
                reply, handler = handler(session or self.session, request), None
            except Refusal as refusal:
                return request.reply(refusal.code, refusal.remark, refusal.ext_fields)
            except NotReady as work:  # it takes turns
                trio.run(work.ready)
                handler = work.then
        if isinstance(reply, bytes):
            reply = decode_frame(reply[4:])
        assert isinstance(reply, RemotingCommand)
        barrier, self.state.barrier = self.state.barrier, None
        if barrier is not None:
            trio.run(barrier)
        return reply

    def expired(self, before_ms: int) -> list[Hashable]:
        """The owners of the registrations that this removes."""
        return done(self.state.routes.expire(before_ms))

    def register(self, *topics: TopicConfig, **options: Any) -> RemotingCommand:
        return self.ask(
            RequestCode.REGISTER_BROKER,
            options.pop("body", None) or registration(*topics, counter=options.pop("counter", 1)),
            session=options.pop("session", None),
            version=options.pop("version", 409),
            **identity(**options),
        )


def identity(
    name: str = "broker-a",
    address: str = "10.0.0.1:10911",
    cluster: str = "DefaultCluster",
    broker_id: int = 0,
    **more: str,
) -> dict[str, Any]:
    return {
        "brokerName": name,
        "brokerAddr": address,
        "clusterName": cluster,
        "haServerAddr": address[:-1] + "2",
        "brokerId": str(broker_id),
    } | more


def wrapper(*topics: TopicConfig, counter: int = 1) -> TopicConfigSerializeWrapper:
    return TopicConfigSerializeWrapper(
        topic_config_table={topic.topic_name: topic for topic in topics},
        data_version=DataVersion(timestamp=5, counter=counter),
    )


def registration(
    *topics: TopicConfig,
    counter: int = 1,
    compressed: bool = False,
    filter_servers: tuple[str, ...] = (),
) -> bytes:
    body = RegisterBrokerBody(wrapper(*topics, counter=counter), list(filter_servers))
    return body.encode(compressed=compressed)


def checksum(body: bytes) -> str:
    return str(crc32(body))


def topic(name: str, queues: int = 4, perm: int = 6, flag: int = 0) -> TopicConfig:
    return TopicConfig(name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=flag)
