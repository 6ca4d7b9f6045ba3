"""Timer properties of a message (Java `HookUtils.handleScheduleMessage`).

TIMER_DELAY_SEC takes precedence over TIMER_DELAY_MS, and that over TIMER_DELIVER_MS. A delay level above 0
takes precedence over all three and removes them. A message with TIMER_OUT_MS has already waited; a time in
the past means no delay.
"""

from __future__ import annotations

import re

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.store.values import PutStatus, StoreMessage
from rmqcli.codec.names import TIMER_TOPIC
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.property_names import TIMERS, PropertyName, delay_level
from rmqcli.codec.store.timer_files import PRECISION_MS

DELAY_SEC, DELAY_MS, DELIVER_MS = (
    PropertyName.TIMER_DELAY_SEC,
    PropertyName.TIMER_DELAY_MS,
    PropertyName.TIMER_DELIVER_MS,
)
OUT_MS, DEL_UNIQKEY = PropertyName.TIMER_OUT_MS, PropertyName.TIMER_DEL_UNIQKEY
_LONG = re.compile(r"[+-]?[0-9]{1,19}")


def number(text: str) -> int | None:
    """Return the number that Java's `Long.parseLong` returns; None if it raises."""
    value = int(text) if _LONG.fullmatch(text) else None
    return value if value is None or -(2**63) <= value < 2**63 else None


def delete_key(topic: str, key: str) -> str:
    """Return the TIMER_DEL_UNIQKEY of the record that recalls a message, given its topic and UNIQ_KEY."""
    return f"{topic}+{key}"


def timer_problem(broker: BrokerContext, message: StoreMessage) -> PutStatus | None:
    """Return the reason why the store refuses a message with timer properties; None if there is none.

    For a half message, this is checked before its commit as well.
    """
    due = _due(broker, message)
    return due if isinstance(due, PutStatus) else None


def timer_slot(broker: BrokerContext, message: StoreMessage) -> int | PutStatus | None:
    """Return the second in which a message with timer properties is due, in ms; None if it does not wait, and
    otherwise the status of its refusal. Timer properties beside a delay level are removed."""
    properties = message.properties
    if delay_level(properties) > 0:
        for name in TIMERS & properties.keys():
            del properties[name]
        message.properties_text = encode_properties(properties)
        return None
    due = _due(broker, message)
    if due is None or isinstance(due, PutStatus):
        return due
    slot = (due - 1) // PRECISION_MS * PRECISION_MS
    if broker.timers.counts.get(slot, 0) > broker.config.timer_congest_num_each_slot:
        return PutStatus.WHEEL_TIMER_FLOW_CONTROL
    return slot


def _due(broker: BrokerContext, message: StoreMessage) -> int | PutStatus | None:
    properties = message.properties
    if OUT_MS in properties or message.topic == TIMER_TOPIC or delay_level(properties) > 0:
        return None
    if not broker.config.timer_wheel_enable:
        return PutStatus.WHEEL_TIMER_NOT_ENABLE
    name = next(name for name in (DELAY_SEC, DELAY_MS, DELIVER_MS) if name in properties)
    value, now = number(properties[name]), broker.now_ms()
    if value is None:
        return PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    due = value if name == DELIVER_MS else now + value * (1000 if name == DELAY_SEC else 1)
    if due - now > broker.config.timer_max_delay_sec * 1000:
        return PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    victim = properties.get(DEL_UNIQKEY)
    # Beyond Java: a message may recall only messages of its own topic, for which its sender has permission.
    if victim is not None and (due <= now or not victim.startswith(delete_key(message.topic, ""))):
        return PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    return due if due > now else None
