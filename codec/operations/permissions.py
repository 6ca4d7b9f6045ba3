"""The permissions that accounts of 4.9 and users of 5.x need for requests, derived from the table of operations.

A user needs one of the actions of each check. For an account of 4.9, PUB and SUB among them are permissions
for the topic; a group needs SUB. A change to topics, groups or the cluster needs an administrator; reading
facts about the cluster needs an account. Java checks only the operations in `JAVA` (4.9.8
`PlainAccessResource.parse`), so the account of an administrator needs no permissions for the others. A
resource whose name is missing or empty is ignored.

One rule is stricter than Java's: a send to a retry topic needs the group of the topic in addition to the
group that the request names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from rmqcli.codec.acl.account_file import OF_FILES, Permission
from rmqcli.codec.acl.decision import Need, on_cluster, on_group, on_topic
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.names import RETRY_PREFIX
from rmqcli.codec.operations import acl, brokers, clients, groups, messages, offsets, pop, topics
from rmqcli.codec.operations.access import Access, Action, ResourceKind
from rmqcli.codec.operations.operation import AnyOperation, Operation
from rmqcli.codec.receipt_handle import RETRY_V1, RETRY_V2, pop_retry_topic

JAVA: Final = frozenset(
    {
        *(R.SEND_MESSAGE, R.SEND_MESSAGE_V2, R.SEND_BATCH_MESSAGE, R.CONSUMER_SEND_MSG_BACK),
        *(R.PULL_MESSAGE, R.LITE_PULL_MESSAGE, R.QUERY_MESSAGE, R.HEART_BEAT, R.UNREGISTER_CLIENT),
        *(R.GET_CONSUMER_LIST_BY_GROUP, R.UPDATE_CONSUMER_OFFSET),
    }
)
"""The operations for which Java checks a topic or a group (two of them with gaps)."""

Ext = Mapping[str, str]

_BITS: Final = {action: Permission[action.name] for action in Action}
_RETRY_GROUPS: Final = {
    R.SEND_MESSAGE: "group",
    R.SEND_MESSAGE_V2: "a",
    R.SEND_BATCH_MESSAGE: "a",
}
"""The fields of the groups that Java checks for a send to a retry topic."""
_OF_POPPED: Final = frozenset({R.ACK_MESSAGE, R.CHANGE_MESSAGE_INVISIBLETIME})
"""Requests that name the topic in which a popped message is stored, and get no messages."""


class _Named(NamedTuple):
    """A check of the resource that a field of the header names."""

    field: str
    is_group: bool
    permission: Permission


class Rule(NamedTuple):
    """The needs of an operation. `always` are those that no request names; `message` is the check of a message that
    must be looked up."""

    operation: AnyOperation | None = None
    is_for_admins: bool = False
    in_header: tuple[_Named, ...] = ()
    in_body: tuple[Access, ...] = ()
    message: Access | None = None
    retry_group: str | None = None
    always: tuple[Need, ...] = ()

    @property
    def binds_admins(self) -> bool:
        """True if an administrator also needs the permissions."""
        return self.operation is not None and self.operation.code in JAVA

    def needs(self, ext_fields: Ext) -> tuple[Need, ...]:
        """Return the needs that follow from the ext fields of a request."""
        found: dict[Need, None] = {}
        for field, is_group, permission in self.in_header:
            name = ext_fields.get(field)
            if not name:
                continue
            if is_group:
                found[on_group(name, permission)] = None
            elif permission is Permission.PUB and name.startswith(RETRY_PREFIX):
                groups = ext_fields.get(self.retry_group or ""), name.removeprefix(RETRY_PREFIX)
                found.update(dict.fromkeys(map(on_group, filter(None, groups))))
            else:
                found[Need(self._popped(name, ext_fields), permission)] = None
        return self.always + tuple(found)

    def _popped(self, name: str, ext_fields: Ext) -> str:
        """Return the topic that was popped, for a request about a message that came from its retry topic."""
        group = ext_fields.get("consumerGroup")
        if group and self.operation is not None and self.operation.code in _OF_POPPED:
            for flag in (RETRY_V1, RETRY_V2):
                name = name.removeprefix(pop_retry_topic(group, "", flag))
        return name

    def needs_of_body(self, body: object) -> Iterator[Need]:
        """Yield the needs that follow from the body of a request; there may be thousands."""
        return chain.from_iterable(
            (
                on_group(name, permission_of(access.actions))
                if access.kind is ResourceKind.GROUP
                else on_topic(name, permission_of(access.actions))
                for name in access.names(None, body)
                if name
            )
            for access in self.in_body
        )


def permission_of(actions: tuple[Action, ...]) -> Permission:
    """Return the permissions of which any is enough for a check."""
    permission = Permission(0)
    for action in actions:
        permission |= _BITS.get(action, Permission(0))
    return permission


def rule_of(operation: AnyOperation) -> Rule:
    """Return the rule that results from the checks of an operation."""
    fields: dict[str, str] = {}
    header: Any = operation.request
    if header is not None:
        fields = dict(zip(header.__struct_fields__, header.__struct_encode_fields__, strict=True))
    in_header: list[_Named] = []
    in_body: list[Access] = []
    always: list[Need] = []
    is_for_admins, message = False, None
    for access in operation.access:
        permission = permission_of(access.actions)
        if access.kind is not ResourceKind.MESSAGE and not permission & OF_FILES:
            is_for_admins |= access.actions != (Action.GET,)
        if access.kind is ResourceKind.MESSAGE:
            message = access
        elif access.kind is ResourceKind.CLUSTER:
            always.append(on_cluster(permission))
        elif access.named_by in fields:
            in_header.append(_Named(fields[access.named_by], access.kind is ResourceKind.GROUP, permission))
        else:
            in_body.append(access)
    return Rule(
        operation,
        is_for_admins,
        tuple(in_header),
        tuple(in_body),
        message,
        _RETRY_GROUPS.get(operation.code),
        tuple(always),
    )


ANY_ACCOUNT: Final = Rule()
"""The rule for a code that no table has."""
RULES: Final[Mapping[int, Rule]] = {
    int(operation.code): rule_of(operation)
    for area in (acl, brokers, clients, groups, messages, offsets, pop, topics)
    for operation in vars(area).values()
    if isinstance(operation, Operation)
}
"""The rules for the operations that brokers serve."""
