"""Clients of others that sign their requests, with a broker that has accounts: what each of them may do. None
of them speaks TLS."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.broker.auth import control
from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.client import Admin, Credentials
from tests.foreign.install import Client
from tests.processes import ended
from tests.support import PATIENCE

SECRET = "secret-of-ordinary"
ACCOUNTS = f"""
accounts:
- {{accessKey: operator, secretKey: secret-of-operator, admin: true}}
- accessKey: ordinary
  secretKey: {SECRET}
  topicPerms: [Both=PUB|SUB, Read=SUB, Written=PUB]
  groupPerms: [G_open=SUB, G_shut=DENY]
"""
TOPICS = ("Both", "Read", "Written")
COUNT = "5"

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    path = tmp_path_factory.mktemp("accounts") / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    settings: dict[str, Any] = {"acl_enable": True, "plain_acl_file": str(path)}
    with embedded_in_thread(**settings, message_delay_level=" ".join(["1s"] * 18)) as cluster:
        trio.run(create_topics, cluster)
        yield cluster


async def create_topics(cluster: Cluster) -> None:
    account = Credentials("operator", "secret-of-operator")
    async with Admin(namesrv=cluster.namesrv, credentials=account) as admin:
        for topic in TOPICS:
            await admin.topics.create(topic, read_queues=1, write_queues=1)


@pytest.fixture
def start(
    client: Client, guarded: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Start]:
    """Starts the driver of a client with an account; `words` follow the name server."""

    def started(verb: str, *words: str, key: str = "ordinary", secret: str = SECRET) -> subprocess.Popen[str]:
        monkeypatch.setenv("ACCESS_KEY", key)
        monkeypatch.setenv("SECRET_KEY", secret)
        process = client.start(tmp_path, verb, guarded.namesrv, *words)
        processes.append(process)
        return process

    processes: list[subprocess.Popen[str]] = []
    yield started
    for process in processes:
        with ended(process):
            pass


def output(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=PATIENCE)[0]


def test_an_account_sends_consumes_and_sends_back(client: Client, start: Start) -> None:
    """Each message fails once: the broker has the group's permission checked for the retry, too."""
    prefix = client.name
    assert f'"done":{COUNT}' in output(start("send", "Both", "P", COUNT, prefix)).replace(" ", "")
    lines = output(start("consume", "Both", "G_open", COUNT, prefix, "fail-once")).splitlines()
    assert sum(f'"{prefix}-' in line for line in lines if '"body"' in line) >= int(COUNT)


REFUSED = [
    (("send", "Read", "P"), {}, "No default permission for topic:Read"),
    (("send", "Both", "P"), {"secret": "another-secret"}, "Check signature failed for accessKey=ordinary"),
    (("send", "Both", "P"), {"key": "nobody-else"}, "No acl config for nobody-else"),
    (("consume", "Written", "G_open"), {}, "No default permission for topic:Written"),
    (("consume", "Read", "G_shut"), {}, "No default permission for group:G_shut"),
]


@pytest.mark.parametrize(("words", "account", "refusal"), REFUSED, ids=[refusal for *_, refusal in REFUSED])
def test_what_an_account_may_not_do(
    start: Start,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    account: dict[str, str],
    refusal: str,
) -> None:
    monkeypatch.setattr(control, "TOLD_AGAIN_MS", 0)  # another client was refused for the same reason
    caplog.set_level(logging.DEBUG, "rmqcli.broker.auth")
    process = start(*words, COUNT, "x", **account)
    deadline = time.monotonic() + PATIENCE
    while refusal not in caplog.text:
        assert time.monotonic() < deadline, caplog.text
        time.sleep(0.02)
    process.terminate()
    printed = output(process)
    assert '"body"' not in printed and '"done"' not in printed
