"""Commands and servers of a user that has no home folder: no HOME, and an id that no user has, as in a container."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from rmqcli.broker.config import expand_path
from rmqcli.broker.errors import ConfigError
from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.completing import cache_path
from rmqcli.cli.profiles import profiles_path
from rmqcli.client import InvalidRequest
from rmqcli.client.group.offset_store import offsets_file
from rmqcli.state import NO_HOME, state_folder
from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def homeless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in list(os.environ):
        if name == "HOME" or name.startswith(("XDG_", "RMQ_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_no_folder_is_relative() -> None:
    for path in (state_folder(), profiles_path(), cache_path("topics", "a")):
        assert path.is_relative_to(NO_HOME)


def test_what_is_read_is_empty_and_what_is_written_names_the_variables(
    cli: Run, cluster: Cluster, tmp_path: Path
) -> None:
    assert cli("profile", "list").code == 0
    added = cli("profile", "add", "a", "localhost")
    assert (added.code, added.out) == (4, b"")
    assert added.err.endswith(
        "; this user has no home folder: set HOME, or RMQ_CONFIG_DIR and RMQ_STATE_DIR\n"
    )
    checked = cli("-n", cluster.namesrv, "check", "brokers", "--expect", "1")
    assert checked.code == 0 and checked.out.startswith(b"RMQ BROKERS OK")
    assert b"name a folder that can be written to with RMQ_STATE_DIR" in checked.out
    assert list(tmp_path.iterdir()) == []


def test_a_server_asks_for_another_path(cli: Run, tmp_path: Path) -> None:
    for words, path in (
        (["namesrv"], "~/namesrv/kvConfig.json"),
        (["broker", "-n", "127.0.0.1:1"], "~/store"),
    ):
        started = cli(*words, "--port", "0")
        assert (started.code, started.out) == (2, b"")
        assert started.err == f"rmq: {path}: this user has no home folder: set HOME, or another path\n"
    with pytest.raises(ConfigError):
        expand_path("${user.home}/x")
    assert expand_path("/x") == Path("/x")


def test_a_broadcasting_consumer_asks_for_a_home_folder() -> None:
    with pytest.raises(InvalidRequest, match="set HOME"):
        offsets_file(None, "client", "group")
    assert offsets_file(Path("/x"), "client", "group") == Path("/x/client/group/offsets.json")
