"""Timers of 5.x clients, served as delay levels or refused (Java `HookUtils.handleScheduleMessage`).

TIMER_DELAY_SEC takes precedence over TIMER_DELAY_MS, and that over TIMER_DELIVER_MS. A delay level above 0
takes precedence over all three and removes them. A message with TIMER_OUT_MS has waited already; a time in
the past means no delay.
"""

from __future__ import annotations

import re

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.property_names import TIMERS, PropertyName, delay_level

DELAY_SEC, DELAY_MS, DELIVER_MS = (
    PropertyName.TIMER_DELAY_SEC,
    PropertyName.TIMER_DELAY_MS,
    PropertyName.TIMER_DELIVER_MS,
)
_LONG = re.compile(r"[+-]?[0-9]{1,19}")


def take_timer(broker: BrokerContext, properties: dict[str, str]) -> None:
    """Replace timer properties with the delay level of the same length. Raises Refusal if there is none."""
    if delay_level(properties) > 0:
        _drop(properties)
        return
    if PropertyName.TIMER_OUT_MS in properties:
        return
    name = next(name for name in (DELAY_SEC, DELAY_MS, DELIVER_MS) if name in properties)
    value = properties[name]
    if not _LONG.fullmatch(value):
        raise _refusal(f"the property {name} is not a number: {value[:40]}")
    if PropertyName.TIMER_DEL_UNIQKEY in properties:
        raise _refusal(
            f"the property {PropertyName.TIMER_DEL_UNIQKEY} recalls a timer message, and none is served"
        )
    due_in = int(value) - broker.now_ms() if name == DELIVER_MS else int(value)
    if due_in <= 0:
        return
    delay_ms = due_in * 1000 if name == DELAY_SEC else due_in
    if name == DELIVER_MS or delay_ms not in broker.delay_levels.delays_ms:
        what = "a time to deliver at" if name == DELIVER_MS else "a delay that is no delay level"
        levels = broker.config.message_delay_level
        raise _refusal(
            f"the property {name}={value} asks for {what}: timer messages are not served, "
            f"use {DELAY_SEC} with a delay of messageDelayLevel ({levels})"
        )
    _drop(properties)
    properties[PropertyName.DELAY] = str(broker.delay_levels.delays_ms.index(delay_ms) + 1)


def _drop(properties: dict[str, str]) -> None:
    for name in TIMERS & properties.keys():
        del properties[name]


def _refusal(remark: str) -> Refusal:
    return Refusal(ResponseCode.MESSAGE_ILLEGAL, remark)
