"""Names for shells to complete: from a cache, from a cluster in little time, never an error."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from rmqcli.cli import completing
from rmqcli.cli.profile_values import Profile
from rmqcli.cli.profiles import save_profile
from tests.cli.conftest import Result, Run
from tests.support import PATIENCE


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine needs longer than a person waits."""
    monkeypatch.setattr(completing, "ASKING", PATIENCE)
    monkeypatch.setattr(completing, "ALTOGETHER", PATIENCE)


@pytest.fixture
def aside(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The words of the processes that would be started."""
    asked: list[list[str]] = []
    monkeypatch.setattr(completing, "_ask_aside", lambda words: asked.append([*words]))
    return asked


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> list[str]:
        raise AssertionError("the cluster was asked")

    monkeypatch.setattr(completing, "_ask_aside", refused)


def only_cached() -> list[Path]:
    return sorted(Path(os.environ["RMQ_CACHE_DIR"]).rglob("*-*"))


def names(done: Result) -> list[str]:
    assert (done.code, done.err) == (0, "")
    return done.out.decode().splitlines()


def asked_and_found(cli: Run, kind: str) -> list[str]:
    assert names(cli("__complete", "--ask", kind, "pull")) == []
    return names(cli("__complete", kind, "pull"))


@pytest.mark.usefixtures("patient", "aside")
def test_names_of_a_cluster(cli: Run, rmq: Run, topic: str) -> None:
    assert rmq("group", "create", "completed").code == 0
    found = {kind: asked_and_found(cli, kind) for kind in completing.KINDS}
    assert (topic in found["topics"], "completed" in found["groups"]) == (True, True)
    assert not any(name.startswith(("%", "TBW102")) for name in found["topics"])
    assert (found["brokers"], found["clusters"]) == (["broker-a"], ["DefaultCluster"])
    assert found["profiles"] == []


def test_names_are_believed_for_a_minute(cli: Run, aside: list[list[str]]) -> None:
    words = ("topics", "pull", "-n", "127.0.0.1:1")
    assert names(cli("__complete", *words)) == []
    assert names(cli("__complete", *words)) == []
    assert aside == [["--ask", *words]]
    (path,) = only_cached()
    completing.store(path, ["orders"])
    assert names(cli("__complete", *words)) == ["orders"]
    assert len(aside) == 1
    written = path.stat().st_mtime
    os.utime(path, (written - completing.KEPT, written - completing.KEPT))
    assert [names(cli("__complete", *words)) for _ in range(2)] == [["orders"]] * 2
    assert len(aside) == 2


def test_a_cluster_that_does_not_answer_leaves_the_names(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(kind: str, _: object) -> list[str]:
        await trio.sleep_forever()

    monkeypatch.setattr(completing, "names_of", silent)
    monkeypatch.setattr(completing, "ASKING", 0.01)
    path = completing.cache_path("topics", repr({"namesrv": "127.0.0.1:1", "namespace": ""}))
    completing.store(path, ["orders"])
    assert names(cli("__complete", "--ask", "topics", "-n", "127.0.0.1:1")) == []
    assert names(cli("__complete", "topics", "-n", "127.0.0.1:1")) == ["orders"]


def test_what_blocks_is_interrupted(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that never looks up, as an import that hangs, ends by the alarm."""

    async def stuck(*_: object) -> list[str]:
        while True:
            pass

    monkeypatch.setattr(completing, "names_of", stuck)
    monkeypatch.setattr(completing, "ALTOGETHER", 0.05)
    assert names(cli("__complete", "--ask", "groups", "-n", "127.0.0.1:1")) == []
    assert only_cached() == []


def test_another_process_asks(cli: Run, rmq: Run, topic: str) -> None:
    """The words and the environment arrive there; this one does not wait."""
    assert names(cli("__complete", "topics")) == []
    (path,) = only_cached()
    deadline = time.monotonic() + PATIENCE
    while not completing.known(path)[0]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert topic in names(cli("__complete", "topics"))


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
        completing.store(completing.cache_path("topics", repr({**cluster, "namespace": ""})), kept)

    keep({"namesrv": "ns:1"}, "one", "with blank", "bell\a")
    keep({"namesrv": "a:2;b:3"}, "two")
    save_profile("prod", Profile("a:2;b:3"))
    for words in (["-n", "ns:1"], ["--namesrv=ns:1"], ["-n", "ns", ":", "1"], ["-n", "x:1", "-n", "'ns:1'"]):
        assert names(cli("__complete", "topics", "pull", *words)) == ["one"], words
    assert names(cli("__complete", "topics", "--profile", "prod")) == ["two"]
    assert names(cli("__complete", "profiles")) == ["prod"]


def test_a_cached_answer_imports_little() -> None:
    """Typer and trio alone would take longer than a person should wait."""
    path = completing.cache_path("topics", repr({"namesrv": "127.0.0.1:9876", "namespace": ""}))
    completing.store(path, ["orders"])
    program = (
        "import sys; from rmqcli.__main__ import run; run(['__complete', 'topics']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, modules = done.stdout.splitlines()
    assert first == "orders"
    assert not set(modules.split()) & {"typer", "trio", "rich", "rmqcli.client", "rmqcli.cli.app", "asyncio"}
