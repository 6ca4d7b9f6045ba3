"""Metrics of clients as plain values: totals since the client was created, and current numbers."""

from __future__ import annotations

from typing import NamedTuple


class ProducerMetrics(NamedTuple):
    """The metrics of a producer. A send is one call, with all its attempts; a batch is one send.

    `sends`: the number of sends that have ended. `seconds`: their total duration. `sent`: acknowledged
    messages, and oneway ones that were written. `failed`: messages of sends that raised an error or were
    cancelled after they had been checked. `retried`: attempts after the first of each send. `in_flight`: the
    number of running sends. `reconnects`: connections that replaced a lost one, of all clients of the
    instance.

    ```python
    await producer.send(Message.of("orders", b"hello"))
    metrics = producer.metrics()
    assert (metrics.failed, metrics.retried, metrics.in_flight) == (0, 0, 0)
    print(f"{metrics.sent} messages sent, {metrics.seconds / metrics.sends * 1000:.1f} ms each")
    ```
    """

    sends: int
    seconds: float
    sent: int
    failed: int
    retried: int
    in_flight: int
    reconnects: int


class ConsumerMetrics(NamedTuple):
    """The metrics of a push or lite pull consumer.

    `calls`: the number of calls of the listener that have ended, or of polls that returned messages.
    `seconds`: their total duration. `consumed`: messages that the listener accepted, or that polls returned.
    `failed`: messages that the listener did not accept, counted each time. `waiting`: messages that were
    pulled and not consumed yet. `lag`: messages at the brokers and here that are not consumed yet, as of the
    last pull of each queue of this consumer. `reconnects`: connections that replaced a lost one, of all
    clients of the instance.

    ```python
    async with LitePullConsumer("scanners") as consumer:
        await consumer.assign(await consumer.message_queues("orders"))
        for queue in consumer.assignment:
            await consumer.seek_to_begin(queue)
        (message,) = await consumer.poll()
        metrics = consumer.metrics()
    assert (metrics.calls, metrics.consumed, metrics.lag) == (1, 1, 0)
    ```
    """

    calls: int
    seconds: float
    consumed: int
    failed: int
    waiting: int
    lag: int
    reconnects: int


class SendCounts:
    """The totals of one producer. Its thread writes them; other threads may read them."""

    __slots__ = ("ended", "failed", "messages", "retried", "running", "seconds")

    def __init__(self) -> None:
        self.running = self.ended = self.messages = self.failed = self.retried = 0
        self.seconds = 0.0

    def end(self, seconds: float, messages: int, attempts: int) -> None:
        """Count the end of a send."""
        self.running -= 1
        self.ended += 1
        self.messages += messages
        self.seconds += seconds
        if attempts > 1:
            self.retried += attempts - 1

    def metrics(self, reconnects: int) -> ProducerMetrics:
        sent = self.messages - self.failed
        return ProducerMetrics(
            self.ended, self.seconds, sent, self.failed, self.retried, self.running, reconnects
        )
