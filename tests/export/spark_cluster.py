"""Spark's own standalone cluster, from the pyspark package: a master and two workers, processes of their own on loopback addresses."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from rmqcli.export.java import java_home

__all__ = ["SMALL", "standalone"]

MASTER_HOST = "127.0.0.1"
WORKER_HOSTS = ("127.0.0.2", "127.0.0.3")
"""Different ones: Spark does not run two attempts of a task on one host."""
START_SECONDS = 60
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.driver.extraJavaOptions": QUICK_START,
}
"""Settings of an application that is to be over soon."""


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """The URL of the master. Each worker has one core for one executor; logs and work are below `folder`."""
    environment = _environment(folder)
    start = ["--port", "0", "--webui-port", "0"]
    limits = ["--cores", "1", "--memory", "1g"]
    with ExitStack() as stack:
        log = folder / "master.log"
        master = stack.enter_context(_daemon("master.Master", MASTER_HOST, start, environment))
        url = _said(master, r"master at (spark://\S+)", log)
        workers = {
            folder / host: stack.enter_context(
                _daemon(
                    "worker.Worker",
                    host,
                    [*start, *limits, "--work-dir", str(folder / host), url],
                    environment,
                )
            )
            for host in WORKER_HOSTS
        }
        for work, worker in workers.items():
            _said(worker, "registered with (master)", work.with_name(f"{work.name}.log"))
        yield url


def _environment(folder: Path) -> Mapping[str, str]:
    """Nothing of it needs the name of this machine to resolve."""
    home = java_home(folder / "java")
    return {
        **os.environ,
        **({} if home is None else {"JAVA_HOME": home}),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.master.rest.enabled=false {QUICK_START}",
    }


@contextmanager
def _daemon(
    name: str, host: str, arguments: list[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """With it ends all that it started."""
    program = f"{environment['SPARK_HOME']}/bin/spark-class"
    command = [program, f"org.apache.spark.deploy.{name}", "--host", host, *arguments]
    with subprocess.Popen(
        command,
        env={**environment, "SPARK_LOCAL_IP": host},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _said(process: subprocess.Popen[str], pattern: str, log: Path) -> str:
    """What the pattern catches in the output, which goes on to a file."""
    assert process.stdout is not None
    lines = process.stdout
    overdue = threading.Timer(START_SECONDS, process.kill)
    overdue.start()
    try:
        for line in lines:
            with log.open("a") as file:
                file.write(line)
            if found := re.search(pattern, line):
                threading.Thread(target=_drain, args=(lines, log), daemon=True).start()
                return found[1]
    finally:
        overdue.cancel()
    raise AssertionError(f"not started, see {log}")


def _drain(lines: Iterable[str], log: Path) -> None:
    for line in lines:
        with log.open("a") as file:
            file.write(line)
