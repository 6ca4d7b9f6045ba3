"""Limits on the offsets that clients add to the table, which accepts any group name, as in Java. A client
that consumes has pulled before it commits, so its group, topic and queue exist."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rmqcli.broker.errors import Refusal
from rmqcli.codec.codes import ResponseCode

if TYPE_CHECKING:
    from rmqcli.broker.net.session import Session
    from rmqcli.broker.tables.clients import ConsumerTable
    from rmqcli.broker.tables.groups import GroupTable
    from rmqcli.broker.tables.offsets import OffsetTable
    from rmqcli.broker.tables.topics import TopicTable

MOST = 1_048_576
"""Maximum number of offsets in the table."""
MOST_FOR_UNKNOWN = 262_144
"""Offsets in the table beyond which only those of existing groups, topics and queues are added."""
MOST_OF_CLIENT = 131_072
"""Maximum number of offsets that one connection may add: twice the queues of the largest topic."""
MOST_UNKNOWN_OF_CLIENT = 1024
"""Maximum number of these offsets whose group, topic or queue does not exist."""
LONGEST_NAME = 255

_log = logging.getLogger(__name__)


class NewOffsets:
    """Counts the offsets that each connection adds."""

    def __init__(
        self, offsets: OffsetTable, topics: TopicTable, groups: GroupTable, consumers: ConsumerTable
    ) -> None:
        self._offsets = offsets
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._added: dict[Session, int] = {}
        self._unknown: dict[Session, int] = {}
        self._refused: set[Session] = set()

    def admit(self, session: Session, group: str, topic: str, queue_id: int, count: int = 1) -> None:
        """Count `count` more offsets, the last one for `queue_id`. Raises Refusal if a limit is exceeded."""
        is_known = self._is_known(group, topic, queue_id)
        added, unknown = self._added.get(session, 0) + count, self._unknown.get(session, 0)
        reason = ""
        if added > MOST_OF_CLIENT:
            reason = f"a connection can add {MOST_OF_CLIENT} offsets at most"
        elif len(self._offsets) + count > (MOST if is_known else MOST_FOR_UNKNOWN):
            reason = f"there are {len(self._offsets)} offsets: delete groups that are not used any more"
        elif not is_known and unknown + count > MOST_UNKNOWN_OF_CLIENT:
            what = "offsets of groups, topics or queues that do not exist"
            reason = f"a connection can add {MOST_UNKNOWN_OF_CLIENT} {what}"
        elif not is_known and max(len(group), len(topic)) > LONGEST_NAME:
            reason = f"the name of a group or topic has more than {LONGEST_NAME} characters"
        if reason:
            self._refuse(session, reason)
        self._added[session] = added
        if not is_known:
            self._unknown[session] = unknown + count

    def drop_session(self, session: Session) -> None:
        """Forget a connection that has ended."""
        self._added.pop(session, None)
        self._unknown.pop(session, None)
        self._refused.discard(session)

    def _refuse(self, session: Session, reason: str) -> None:
        """Raise Refusal. The first one of a connection is logged, because commits are one-way."""
        if session not in self._refused:
            self._refused.add(session)
            _log.warning("%s: no more of its offsets are accepted: %s", session.peer_text, reason)
        raise Refusal(ResponseCode.SYSTEM_ERROR, reason)

    def _is_known(self, group: str, topic: str, queue_id: int) -> bool:
        config = self._topics.get(topic)
        if config is None or not 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums):
            return False
        return group in self._groups or self._consumers.get(group) is not None
