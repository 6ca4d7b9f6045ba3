"""How a session is reached and started."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rmqcli.exit_codes import ExitCode
from rmqcli.export import ExportError
from rmqcli.export.master import driver_address
from tests.support import JavaStore


@pytest.mark.parametrize(
    ("master", "address"),
    [("local", "127.0.0.1"), ("local[*]", "127.0.0.1"), ("local-cluster[1,1,512]", None), ("yarn", None)],
)
def test_without_an_address_of_a_master(master: str, address: str | None) -> None:
    assert driver_address(master) == address


def test_the_address_towards_the_master() -> None:
    """That of the second one, when the first is not there."""
    with socket.create_server(("127.0.0.3", 0)) as there, socket.create_server(("127.0.0.1", 0)) as gone:
        ports = gone.getsockname()[1], there.getsockname()[1]
        gone.close()
        assert driver_address(f"spark://127.0.0.1:{ports[0]},127.0.0.3:{ports[1]}") == "127.0.0.1"
        there.close()
        with pytest.raises(
            ExportError, match=rf"no Spark master at .*127\.0\.0\.3:{ports[1]}: Connection refused\)"
        ):
            driver_address(f"spark://127.0.0.1:{ports[0]},127.0.0.3:{ports[1]}")


@pytest.mark.parametrize("master", ["spark://host", "spark://", "spark://:7077", "spark://host:port"])
def test_what_is_no_address(master: str) -> None:
    with pytest.raises(ExportError, match=r"spark://HOST:PORT is expected"):
        driver_address(master)


def test_spark_says_why_it_does_not_start(store_clean: JavaStore, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "rmqcli",
        "export",
        "--store",
        store_clean.root,
        "--out",
        tmp_path / "out",
    ]
    done = subprocess.run(
        [*command, "--spark", "--master", "mesos://host"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (ExitCode.FAILED, "")
    assert done.stderr.startswith("rmq: Spark did not start: Master must either be yarn or start with spark")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
