"""Brokers that fell silent are forgotten (Java `RouteInfoManager.scanNotActiveBroker`).

A registration lives for `brokerExpiredTime` (120 s); every `scanNotActiveBrokerInterval` (10 s, the first time after
5 s) the dead ones go, and the connections they came by are closed.
"""

from __future__ import annotations

import logging

import trio

from broker.namesrv.state import NameServerState
from broker.net.session import Session

__all__ = ["expire_silently_dead", "run_expiry"]

_log = logging.getLogger("broker.namesrv")

FIRST_SCAN_SECONDS = 5.0


async def run_expiry(state: NameServerState) -> None:
    """Runs until cancelled."""
    await trio.sleep(FIRST_SCAN_SECONDS)
    while True:
        expire_silently_dead(state)
        await trio.sleep(state.config.scan_not_active_broker_interval / 1000)


def expire_silently_dead(state: NameServerState) -> None:
    """One scan."""
    for owner in state.routes.expire(state.now_ms() - state.config.broker_expired_time):
        if isinstance(owner, Session):
            _log.warning("a broker registered from %s was silent for too long", owner.peer_text)
            owner.close()
