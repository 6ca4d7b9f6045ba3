"""A network of scripted servers: every address has a table of replies, and streams are in memory.

`Network.open_stream` replaces TCP connections. A server replies by `replies` (code → function of the command),
records its requests, and can refuse, be silent, send raw bytes, or drop its connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import trio
from trio.testing import memory_stream_pair

from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.route import BrokerData, QueueData, TopicRouteData
from rmqcli.codec.codes import RPC_RESPONSE, RequestCode, ResponseCode
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection
from rmqcli.codec.remoting.frame import encode_frame

Reply = Callable[[RemotingCommand], RemotingCommand | bytes | None]


class Server:
    """One address. A reply of None: no answer; bytes: sent as they are."""

    def __init__(self, replies: Mapping[int, Reply] | None = None) -> None:
        self.replies: dict[int, Reply] = dict(replies or {})
        self.asked: list[RemotingCommand] = []
        self.streams: list[trio.abc.Stream] = []
        self.refuses = False
        self.hangs = False
        self.opened = 0
        self.receive_calls = 0
        self.greeting = b""
        self.chunk = 0
        self._sending = trio.Lock()

    def codes(self) -> list[int]:
        return [command.code for command in self.asked]

    def count(self, code: int) -> int:
        return self.codes().count(code)

    async def drop(self) -> None:
        """Closes every connection."""
        for stream in self.streams:
            await stream.aclose()
        self.streams.clear()

    async def push(self, command: RemotingCommand) -> None:
        """Sends a request or any other command to the last client."""
        async with self._sending:
            await self.streams[-1].send_all(encode_frame(command))

    async def serve(self, stream: Any) -> None:
        protocol = Connection()
        self.streams.append(stream)
        if self.greeting:
            await stream.send_all(self.greeting)
        try:
            while data := await stream.receive_some():
                self.receive_calls += 1
                for command in protocol.receive(data):
                    await self._answer(stream, command)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def _answer(self, stream: Any, command: RemotingCommand) -> None:
        self.asked.append(command)
        reply = self.replies.get(command.code, not_supported)(command)
        if reply is None or command.is_oneway:
            return
        data = reply if isinstance(reply, bytes) else encode_frame(reply)
        step = self.chunk or len(data)
        async with self._sending:
            for start in range(0, len(data), step):
                await stream.send_all(data[start : start + step])
                await trio.lowlevel.checkpoint()


def not_supported(command: RemotingCommand) -> RemotingCommand:
    return command.reply(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported"
    )


class Network:
    """Addresses and their servers."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.servers: dict[str, Server] = {}

    def server(self, address: str, replies: Mapping[int, Reply] | None = None) -> Server:
        server = self.servers[address] = Server(replies)
        return server

    async def open_stream(self, host: str, port: int) -> Any:
        server = self.servers.get(f"{host}:{port}")
        if server is None or server.refuses:
            raise ConnectionRefusedError(111, "Connection refused")
        if server.hangs:
            await trio.sleep_forever()
        server.opened += 1
        ours, theirs = memory_stream_pair()
        self._nursery.start_soon(server.serve, theirs)
        return ours


def ok(ext: Mapping[str, str] | None = None, body: bytes = b"") -> Reply:
    return lambda command: command.reply(0, None, dict(ext) if ext is not None else None, body)


def refuse(code: int, remark: str = "no") -> Reply:
    return lambda command: command.reply(code, remark)


def silent(command: RemotingCommand) -> None:
    return None


def sent(command: RemotingCommand) -> RemotingCommand:
    """The answer of a broker that stored the message."""
    queue_id = (command.ext_fields or {})["e"]
    ext = {
        "msgId": "0A0000010000277A0000000000000000",
        "queueId": queue_id,
        "queueOffset": "7",
        "MSG_REGION": "R1",
    }
    return command.reply(0, None, ext)


def route(
    topics: Mapping[str, Mapping[str, int]],
    brokers: Mapping[str, Mapping[int, str]],
    perm: int = 6,
    order: str | None = None,
) -> Reply:
    """GET_ROUTEINFO_BY_TOPIC for topics given as {topic: {broker: queues}}; others are unknown."""

    def reply(command: RemotingCommand) -> RemotingCommand:
        topic = (command.ext_fields or {})["topic"]
        if topic not in topics:
            return command.reply(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {topic}\nSee x",
            )
        queues = topics[topic]
        data = TopicRouteData(
            order_topic_conf=order,
            queue_datas=[
                QueueData(broker_name=name, read_queue_nums=count, write_queue_nums=count, perm=perm)
                for name, count in queues.items()
            ],
            broker_datas=[
                BrokerData(cluster="C", broker_name=name, broker_addrs=dict(addresses))
                for name, addresses in brokers.items()
                if name in queues
            ],
        )
        return command.reply(0, None, None, encode_body(data))

    return reply


def response(opaque: int, code: int = 0) -> bytes:
    return encode_frame(RemotingCommand(code, None, b"", opaque, RPC_RESPONSE))


HEARTBEATS: dict[int, Reply] = {RequestCode.HEART_BEAT: ok(), RequestCode.UNREGISTER_CLIENT: ok()}
