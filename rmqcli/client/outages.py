"""Reports once that something has failed, and once that it works again.

All queues of a broker fail together, and each is tried every few seconds, so ten seconds without a broker
would fill hundreds of lines. A lost broker therefore causes one warning, no matter what fails because of it,
and its return another. Any other failure of a queue is reported once until the queue works again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from rmqcli.client.errors import UNREACHED, BrokerRefused, ClientError, NotFound, seconds_text
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.message_queue import MessageQueue

log = logging.getLogger("rmqcli.client.outages")


class Outages:
    """The known failures: by broker the time of the loss, by queue the last text.

    `tell` receives the lines.
    """

    def __init__(self, tell: Callable[[str], None] = log.warning) -> None:
        self._tell = tell
        self._brokers: dict[str, float] = {}
        self._queues: dict[MessageQueue, str] = {}

    def failed(self, what: str, queue: MessageQueue, error: ClientError) -> None:
        """Note that an activity on a queue failed; `what` names it, e.g. "pulling"."""
        name, lost = queue.broker_name, queue.broker_name in self._brokers
        if isinstance(error, UNREACHED) or (isinstance(error, NotFound) and error.concluded):
            if not lost:
                self._brokers[name] = trio.current_time()
                self._tell(f"broker {name} is lost, its queues wait: {_fact(error)}")
                return
        elif self._queues.get(queue) != str(error) and not (lost and _is_new_to(error)):
            self._queues[queue] = str(error)
            self._tell(f"{what} {queue}: {error}")
            return
        log.info("%s %s: %s", what, queue, _fact(error))

    def works(self, queue: MessageQueue) -> None:
        """Note that the broker of a queue responds, and that the queue works."""
        if not (self._brokers or self._queues):
            return
        self._queues.pop(queue, None)
        since = self._brokers.pop(queue.broker_name, None)
        if since is not None:
            seconds = seconds_text(trio.current_time() - since)
            self._tell(f"broker {queue.broker_name} is back after {seconds}")


def _is_new_to(error: ClientError) -> bool:
    """Return True if the group is unknown to a broker, as it is between the broker's return and the next
    heartbeat.
    """
    return isinstance(error, BrokerRefused) and error.code == ResponseCode.SUBSCRIPTION_NOT_EXIST


def _fact(error: ClientError) -> str:
    """Return the error without its remedy, because creating a topic does not bring a lost broker back."""
    return str(error.fact if isinstance(error, BrokerRefused) else error)
