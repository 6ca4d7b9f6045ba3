"""The permission that is missing, from the remark of a refusal by access control.

Remarks of 4.9.8 (`PlainPermissionManager`, code 1) name the resource and not the permission, those of 5.3.3
(`AuthenticationHandler`, `UserAuthorizationHandler`, code 16) the user and the resource.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rmqcli.codec.codes import RequestCode, ResponseCode

_PREFIX = "org.apache.rocketmq.acl.common.AclException: "
_FRAME = re.compile(r", [\w.$<>]+\([\w.]+:\d+\)$")
"""The end of a remark from Java: the method that threw."""
_SENDS = frozenset(
    {
        *(RequestCode.SEND_MESSAGE.name, RequestCode.SEND_MESSAGE_V2.name),
        *(RequestCode.SEND_BATCH_MESSAGE.name, RequestCode.RECALL_MESSAGE.name),
        *(RequestCode.END_TRANSACTION.name, RequestCode.RESUME_CHECK_HALF_MESSAGE.name),
        *(RequestCode.SEND_REPLY_MESSAGE.name, RequestCode.SEND_REPLY_MESSAGE_V2.name),
    }
)
_EITHER = frozenset(
    {
        *(RequestCode.GET_MAX_OFFSET.name, RequestCode.GET_MIN_OFFSET.name),
        *(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP.name, RequestCode.GET_EARLIEST_MSG_STORETIME.name),
        *(RequestCode.GET_TOPIC_STATS_INFO.name, RequestCode.GET_TOPIC_CONFIG.name),
        *(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO.name, RequestCode.GET_CONSUME_STATS.name),
        *(RequestCode.QUERY_CONSUME_TIME_SPAN.name, RequestCode.QUERY_CORRECTION_OFFSET.name),
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER.name,
    }
)
"""Requests for facts about a topic, for which either permission suffices."""

Explain = Callable[[re.Match[str], str], str]


def _of_resource(found: re.Match[str], request: str) -> str:
    kind, name = found[1], found[2]
    permission = "SUB"
    if kind == "topic" and request in _SENDS | _EITHER:
        permission = "PUB" if request in _SENDS else "PUB or SUB"
    return f"{permission} on {kind} {name} is missing"


_REMARKS: tuple[tuple[re.Pattern[str], Explain], ...] = tuple(
    (re.compile(pattern), explain)
    for pattern, explain in (
        (r"No default permission for (topic|group):([^\s,]+)", _of_resource),
        (r"Need admin permission for request code=\d+", lambda found, request: "it takes an admin account"),
        (
            r"(?:No acl config for |No PlainAccessResource for accessKey=)([^\s,]+)",
            lambda found, request: f"the broker has no account {found[1]}",
        ),
        (
            r"Check signature failed for accessKey=([^\s,]+)",
            lambda found, request: f"the secret key of {found[1]} is another one",
        ),
        (r"No accessKey is configured", lambda found, request: "the request is not signed"),
        (r"username cannot be null", lambda found, request: "the request is not signed"),
        (r"check signature failed", lambda found, request: "the secret key is another one"),
        (
            r"User:(\S+) is (not found|disabled)",
            lambda found, request: (
                f"the broker has no user {found[1]}"
                if found[2] == "not found"
                else f"the user {found[1]} is disabled"
            ),
        ),
        (
            r"User:(\S+) has no permission to access (\w+):(\S+) from",
            lambda found, request: f"{_of_user(found, request)} is missing",
        ),
    )
)


def _of_user(found: re.Match[str], request: str) -> str:
    permission = "Pub" if request in _SENDS else "Sub" if found[2] in ("Topic", "Group") else "a permission"
    return f"{permission} of user {found[1]} on {found[2]} {found[3]}"


def denial(code: int, remark: str, request: str) -> str | None:
    """Return the permission that access control found missing for the request of this name.

    Returns None for any other refusal, and "" if the remark does not say which permission is missing.
    """
    if code not in (ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION):
        return None
    for pattern, explain in _REMARKS:
        if found := pattern.search(remark):
            return explain(found, request)
    return "" if _PREFIX in remark else None


def cleaned(remark: str | None) -> str:
    """Return the remark without Java's class and method names."""
    line = (remark or "").strip().partition("\n")[0]
    return _FRAME.sub("", line.replace(_PREFIX, ""))
