"""A client of others that signs its requests, with a broker that has accounts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.client import Admin, Credentials
from tests.foreign.install import ALI_ONS
from tests.processes import ended
from tests.support import PATIENCE

ACCOUNTS = """
accounts:
- {accessKey: operator, secretKey: secret-of-operator, admin: true}
- accessKey: of-ali-ons
  secretKey: secret-of-ali-ons
  topicPerms: [Signed=PUB|SUB, Read=SUB]
  groupPerms: [G_signed=SUB]
"""


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    path = tmp_path / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    monkeypatch.setenv("ACCESS_KEY", "of-ali-ons")
    monkeypatch.setenv("SECRET_KEY", "secret-of-ali-ons")
    with embedded_in_thread(acl_enable=True, plain_acl_file=str(path)) as cluster:
        trio.run(create_topics, cluster)
        yield cluster


async def create_topics(cluster: Cluster) -> None:
    account = Credentials("operator", "secret-of-operator")
    async with Admin(namesrv=cluster.namesrv, credentials=account) as admin:
        for topic in ("Signed", "Read"):
            await admin.topics.create(topic, read_queues=2, write_queues=2)


def test_ali_ons_signs(installed: None, guarded: Cluster, tmp_path: Path) -> None:
    sent = ALI_ONS.lines(tmp_path, "send", guarded.namesrv, "Signed", "G_send", "20", "s")
    assert sent[-1]["done"] == 20
    consumer = ALI_ONS.start(tmp_path, "consume", guarded.namesrv, "Signed", "G_signed", "20", "s")
    with ended(consumer) as process:
        out, _ = process.communicate(timeout=PATIENCE)
    assert sum('"body":"s-' in line for line in out.splitlines()) == 20


@pytest.mark.parametrize(("topic", "secret"), [("Read", "secret-of-ali-ons"), ("Signed", "another-secret")])
def test_ali_ons_is_refused(
    installed: None,
    guarded: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    topic: str,
    secret: str,
) -> None:
    monkeypatch.setenv("SECRET_KEY", secret)
    with pytest.raises(AssertionError, match="still failed"):
        ALI_ONS.lines(tmp_path, "send", guarded.namesrv, topic, "G_send", "1", "s", timeout=PATIENCE)
