"""Address and start of a session."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export import ExportError
from rmqcli.export.errors import MasterError
from rmqcli.export.spark.session import check_master, driver_address, start_reason
from tests.support import PATIENCE, JavaStore


@pytest.mark.parametrize(
    ("master", "address"),
    [("local", "127.0.0.1"), ("local[*]", "127.0.0.1"), ("local-cluster[1,1,512]", None), ("yarn", None)],
)
def test_without_an_address_of_a_master(master: str, address: str | None) -> None:
    assert driver_address(master) == address


def test_the_address_towards_the_master() -> None:
    """It is that of the second one when the first is missing."""
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
    with pytest.raises(ExportError, match=r"expected spark://HOST:PORT"):
        driver_address(master)


@pytest.mark.parametrize(
    "master",
    ["local[x]", "local[0]", "LOCAL", "mesos://host", "127.0.0.1:7077", "local-cluster[1]", "k8s://", ""],
)
def test_what_is_no_master(master: str) -> None:
    with pytest.raises(MasterError, match=r"^--master .*: expected local\[N\], spark://HOST:PORT, .*$"):
        check_master(master)


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[2]", "local[2,3]", "local[*, 2]", "local-cluster[2,1,1024]", "yarn"],
)
def test_masters_that_spark_knows(master: str) -> None:
    check_master(master)
    check_master("spark://a:1,b:2")
    check_master("k8s://https://a:1")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "Exception in thread \"main\" org.apache.spark.SparkException: When running with master 'yarn' set it.",
            "When running with master 'yarn' set it.",
        ),
        (
            "Setting default log level\n26/11/22 03:50:22 ERROR SparkContext: Error initializing SparkContext.\n"
            "io.fabric8.KubernetesClientException: An error has occurred.\n\tat io.fabric8.AException.b(AException.java:1)\n"
            "Caused by: java.io.IOException: Connection refused: /127.0.0.1:1\n",
            "Connection refused: /127.0.0.1:1",
        ),
        (
            "org.a.SparkException: Exception thrown in awaitResult: \n26/11/22 03:50:41 ERROR A$B: it is closed\n",
            "it is closed",
        ),
        ("org.a.SparkException: Exception thrown in awaitResult: \n", "Exception thrown in awaitResult:"),
        ("no such file", "no such file"),
        ("", ""),
    ],
)
def test_the_reason_in_what_spark_says(said: str, reason: str) -> None:
    assert start_reason(said) == reason


def test_spark_says_why_it_does_not_start(store_clean: JavaStore, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "rmqcli",
        "export",
        "--store",
        str(store_clean.root),
        "--out",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(
        [*command, "--spark", "--master", "yarn"],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout) == (ExitCode.FAILED, "")
    assert done.stderr.startswith(
        "rmq: Spark did not start with --master yarn: When running with master 'yarn'"
    )
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
