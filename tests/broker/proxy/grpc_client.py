"""A gRPC client in memory, over h2, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import h2.config
import h2.connection
import h2.events
import trio

from rmqcli.codec.proxy.framing import prefixed


class Answer:
    """What has arrived of the answer to one call."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.trailers: dict[str, str] = {}
        self.data = bytearray()
        self.is_over = False
        self.reset: int | None = None

    @property
    def status(self) -> int:
        """The gRPC status, also of an answer of trailers only."""
        return int((self.trailers or self.headers)["grpc-status"])

    def next(self) -> bytes | None:
        """Take the next whole message."""
        if len(self.data) < 5:
            return None
        size = 5 + int.from_bytes(self.data[1:5], "big")
        if len(self.data) < size:
            return None
        message = bytes(self.data[5:size])
        del self.data[:size]
        return message


class GrpcClient:
    """One connection. Windows are opened as data come, unless `reads` is False."""

    def __init__(self, stream: trio.abc.Stream, *, headers: Mapping[str, str] | None = None) -> None:
        self.stream = stream
        self.reads = True
        self.answers: dict[int, Answer] = {}
        self.headers: dict[str, str | None] = {"x-mq-client-id": "client-1", "x-mq-language": "JAVA"}
        self.headers |= headers or {}
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        )
        self.settings = trio.Event()
        self.goodbye: int | None = None
        self.is_closed = trio.Event()
        self._news = trio.lowlevel.ParkingLot()
        self._sending = trio.Lock()

    async def run(self, task_status: trio.TaskStatus[GrpcClient] = trio.TASK_STATUS_IGNORED) -> None:
        self.h2.initiate_connection()
        await self.flush()
        task_status.started(self)
        try:
            while data := await self.stream.receive_some(65536):
                for event in self.h2.receive_data(bytes(data)):
                    self._take(event)
                await self.flush()
                self._news.unpark_all()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self.is_closed.set()
        self._news.unpark_all()

    async def flush(self, *, before: bytes = b"") -> None:
        """Send the frames of h2, and others before them."""
        async with self._sending:
            if data := before + self.h2.data_to_send():
                await self.stream.send_all(data)

    def _take(self, event: Any) -> None:
        answer = self.answers.setdefault(getattr(event, "stream_id", 0) or 0, Answer())
        if isinstance(event, h2.events.ResponseReceived):
            answer.headers = dict(event.headers)  # type: ignore[arg-type]
        elif isinstance(event, h2.events.DataReceived):
            answer.data += event.data
            if self.reads and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            answer.trailers = dict(event.headers)  # type: ignore[arg-type]
        elif isinstance(event, h2.events.StreamEnded):
            answer.is_over = True
        elif isinstance(event, h2.events.StreamReset):
            answer.is_over, answer.reset = True, event.error_code
        elif isinstance(event, h2.events.SettingsAcknowledged):
            self.settings.set()
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.goodbye = event.error_code

    def open(self, path: str, extra: Sequence[tuple[str, str]] = (), *, end: bool = False) -> int:
        stream = self.h2.get_next_available_stream_id()
        headers: dict[str, str | None] = {":method": "POST", ":scheme": "http", ":path": path}
        headers |= {":authority": "broker.test:8081", "content-type": "application/grpc", "te": "trailers"}
        named = [(name, value) for name, value in (headers | self.headers).items() if value is not None]
        self.h2.send_headers(stream, [*named, *extra], end_stream=end)
        self.answers[stream] = Answer()
        return stream

    async def send(self, stream: int, message: bytes, *, end: bool = False) -> None:
        data = prefixed(message)
        while data:
            size = min(len(data), self.h2.local_flow_control_window(stream), 16384)
            if not size:
                await self.flush()
                await self._news.park()
                assert not self.is_closed.is_set(), "the server closed the connection"
                continue
            self.h2.send_data(stream, data[:size], end_stream=end and size == len(data))
            data = data[size:]
        await self.flush()

    async def message(self, stream: int) -> bytes | None:
        """The next message of an answer; None at its end."""
        answer = self.answers[stream]
        while (found := answer.next()) is None:
            if answer.is_over or self.is_closed.is_set():
                return None
            await self._news.park()
        return found

    async def end(self, stream: int) -> Answer:
        """The answer, once it is complete."""
        answer = self.answers[stream]
        while not answer.is_over:
            assert not self.is_closed.is_set(), "the server closed the connection"
            await self._news.park()
        return answer

    async def ask(self, path: str, message: bytes, extra: Sequence[tuple[str, str]] = ()) -> Answer:
        """The answer to a unary call."""
        stream = self.open(path, extra)
        await self.send(stream, message, end=True)
        return await self.end(stream)
