"""Client ids and group names, as brokers accept them (Java `ClientConfig`, `Validators`)."""

from __future__ import annotations

import re

from codec.message import check_group
from rmqcli.client.errors import InvalidRequest, valid

DEFAULT_NAME = "DEFAULT"
"""The instance name of broadcasting consumers without one; it keeps their offsets file in one place."""
FORBIDDEN_CONSUMER, FORBIDDEN_PRODUCER = "DEFAULT_CONSUMER", "DEFAULT_PRODUCER"
_NOT_A_NAME = re.compile(r"[/\x00-\x1f\x7f]|^\.{0,2}$")


def client_id(ip: str, instance_name: str, unit_name: str | None) -> str:
    """`ip@instance[@unit]`. InvalidRequest for names that a folder of offsets files cannot have."""
    for kind, name in (("instance_name", instance_name), ("unit_name", unit_name)):
        if name is not None and _NOT_A_NAME.search(name):
            raise InvalidRequest(f"{kind} {name!r} is empty, or holds a slash or a control character")
    return "@".join(part for part in (ip, instance_name, unit_name) if part is not None)


def check_group_name(group: str, forbidden: str) -> None:
    """Raise InvalidRequest for an invalid name, and for the one that Java's clients refuse."""
    if group == forbidden:
        raise InvalidRequest(f"the group name {forbidden} is not allowed")
    valid(check_group, group)
