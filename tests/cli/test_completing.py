"""Names for shells to complete: from a cache, from a cluster in little time, never an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from rmqcli.cli import completing, name_cache
from rmqcli.cli.profile import Profile
from rmqcli.cli.profiles import save_profile
from tests.cli.conftest import Result, Run
from tests.support import PATIENCE


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine needs longer than a person waits."""
    monkeypatch.setattr(completing, "ASKING", PATIENCE)
    monkeypatch.setattr(completing, "ALTOGETHER", PATIENCE)


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> list[str]:
        raise AssertionError("the cluster was asked")

    monkeypatch.setattr(completing, "_asked", refused)


def only_cached() -> list[Path]:
    return sorted(Path(os.environ["RMQ_CACHE_DIR"]).rglob("*-*"))


def names(done: Result) -> list[str]:
    assert (done.code, done.err) == (0, "")
    return done.out.decode().splitlines()


@pytest.mark.usefixtures("patient")
def test_names_of_a_cluster(cli: Run, rmq: Run, topic: str) -> None:
    assert rmq("group", "create", "completed").code == 0
    found = {kind: names(cli("__complete", kind, "pull")) for kind in completing.KINDS}
    assert (topic in found["topics"], "completed" in found["groups"]) == (True, True)
    assert not any(name.startswith(("%", "TBW102")) for name in found["topics"])
    assert (found["brokers"], found["clusters"]) == (["broker-a"], ["DefaultCluster"])
    assert found["profiles"] == []


@pytest.mark.usefixtures("patient")
def test_names_are_kept_for_a_minute(cli: Run, rmq: Run, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = names(cli("__complete", "topics"))
    assert rmq("topic", "create", f"{topic}2").code == 0
    assert names(cli("__complete", "topics")) == first
    (path,) = only_cached()
    written = path.stat().st_mtime
    os.utime(path, (written - name_cache.KEPT, written - name_cache.KEPT))
    assert f"{topic}2" in names(cli("__complete", "topics"))


def test_a_cluster_that_does_not_answer_is_not_waited_for(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the limit, this never ends; the next Tab does not ask again."""
    asked: list[str] = []

    async def silent(kind: str, _: object) -> list[str]:
        asked.append(kind)
        await trio.sleep_forever()

    monkeypatch.setattr(completing, "names_of", silent)
    monkeypatch.setattr(completing, "ALTOGETHER", PATIENCE)
    assert names(cli("__complete", "topics", "-n", "127.0.0.1:1")) == []
    assert names(cli("__complete", "topics", "-n", "127.0.0.1:1")) == []
    assert asked == ["topics"]


def test_what_blocks_is_interrupted(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that never looks up, as an import that hangs, ends by the alarm."""

    async def stuck(*_: object) -> list[str]:
        while True:
            pass

    monkeypatch.setattr(completing, "names_of", stuck)
    monkeypatch.setattr(completing, "ALTOGETHER", 0.05)
    assert names(cli("__complete", "groups", "-n", "127.0.0.1:1")) == []
    assert len(only_cached()) == 1, "the next Tab must not ask again"


@pytest.mark.usefixtures("unasked")
def test_nothing_is_an_error(cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ([], ["nonsense"], ["../x"], ["topics", "--profile", "gone"], ["topics", "-n", "a b"]):
        assert names(cli("__complete", *words)) == [], words
    assert only_cached() == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RMQ_CACHE_DIR", str(tmp_path / "file"))
    assert names(cli("__complete", "topics")) == []


@pytest.mark.usefixtures("unasked")
def test_the_words_choose_the_cluster(cli: Run) -> None:
    def keep(cluster: dict[str, object], *kept: str) -> None:
        name_cache.store(name_cache.cache_path("topics", repr({**cluster, "namespace": ""})), kept)

    keep({"namesrv": "ns:1"}, "one", "with blank", "bell\a")
    keep({"namesrv": "a:2;b:3"}, "two")
    save_profile("prod", Profile("a:2;b:3"))
    for words in (["-n", "ns:1"], ["--namesrv=ns:1"], ["-n", "ns", ":", "1"], ["-n", "x:1", "-n", "'ns:1'"]):
        assert names(cli("__complete", "topics", "pull", *words)) == ["one"], words
    assert names(cli("__complete", "topics", "--profile", "prod")) == ["two"]
    assert names(cli("__complete", "profiles")) == ["prod"]


def test_a_cached_answer_imports_little() -> None:
    """Typer and trio alone would take longer than a person should wait."""
    path = name_cache.cache_path("topics", repr({"namesrv": "127.0.0.1:9876", "namespace": ""}))
    name_cache.store(path, ["orders"])
    program = (
        "import sys; from rmqcli.__main__ import run; run(['__complete', 'topics']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, modules = done.stdout.splitlines()
    assert first == "orders"
    assert not set(modules.split()) & {"typer", "trio", "rich", "rmqcli.client", "rmqcli.cli.app", "asyncio"}
