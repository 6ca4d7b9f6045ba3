"""A cluster whose broker has users of 5.x, and requests of users to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.broker.testing.in_memory import START_MS, MemoryCluster, embedded_in_memory
from rmqcli.client import Credentials
from rmqcli.codec.bodies.acl import PolicyEntryInfo, PolicyInfo

ROOT = Credentials("root", "secret-of-root")
BILLING = Credentials("billing", "secret-of-billing")
FIRST = json.dumps({"username": ROOT.access_key, "password": ROOT.secret_key})


@asynccontextmanager
async def with_users(disk: SimulatedDisk | None = None, **settings: Any) -> AsyncIterator[MemoryCluster]:
    """A cluster with authentication and authorization, and the super user `root`."""
    options = {
        "authentication_enabled": True,
        "authorization_enabled": True,
        "init_authentication_user": FIRST,
        **settings,
    }
    disk = disk or SimulatedDisk(now_ms=lambda: START_MS, loses_power=False)
    async with embedded_in_memory(disk=disk, **options) as cluster:
        yield cluster


def entry(
    resource: str, *actions: str, decision: str = "Allow", sources: tuple[str, ...] = ()
) -> PolicyEntryInfo:
    return PolicyEntryInfo(
        resource=resource, actions=list(actions), source_ips=list(sources) or None, decision=decision
    )


def custom(*entries: PolicyEntryInfo) -> PolicyInfo:
    return PolicyInfo(policy_type="Custom", entries=list(entries))


def user_body(password: str | None = BILLING.secret_key, **members: str) -> bytes:
    given: Mapping[str, str | None] = {"password": password, **members}
    return json.dumps({name: value for name, value in given.items() if value is not None}).encode()


def acl_body(*entries: PolicyEntryInfo, subject: str | None = None, kind: str | None = None) -> bytes:
    listed = [
        {
            "resource": one.resource,
            "actions": one.actions,
            "sourceIps": one.source_ips or [],
            "decision": one.decision,
        }
        for one in entries
    ]
    policy = {"entries": listed} | ({} if kind is None else {"policyType": kind})
    return json.dumps({"policies": [policy]} | ({} if subject is None else {"subject": subject})).encode()
