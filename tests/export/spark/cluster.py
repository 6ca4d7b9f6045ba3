"""Spark's own standalone cluster, from the pyspark package: a master and two workers, processes on loopback
addresses.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue

import pyspark

from rmqcli.export.spark.session import java_home

__all__ = ["SMALL", "standalone"]

MASTER_HOST = "127.0.0.1"
WORKER_HOSTS = ("127.0.0.2", "127.0.0.3")
"""Different hosts: Spark does not run two attempts of a task on one."""
START_SECONDS = 120
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.driver.extraJavaOptions": QUICK_START,
}
"""Settings that shorten an application."""


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Yields the URL of the master. Each worker has one core for one executor; logs and work are below
    `folder`.
    """
    environment = _environment(folder)
    start = ["--port", "0", "--webui-port", "0"]
    limits = ["--cores", "1", "--memory", "1g"]
    with ExitStack() as stack:
        log = folder / "master.log"
        master = stack.enter_context(_daemon("master.Master", MASTER_HOST, start, environment, log))
        url = master.wait_for(r"master at (spark://\S+)")
        workers = []
        for host in WORKER_HOSTS:
            arguments = [*start, *limits, "--work-dir", str(folder / host), url]
            log = folder / f"{host}.log"
            workers.append(stack.enter_context(_daemon("worker.Worker", host, arguments, environment, log)))
        for worker in workers:
            worker.wait_for("registered with (master)")
        yield url


def _environment(folder: Path) -> Mapping[str, str]:
    """Returns an environment in which the name of this machine need not resolve."""
    home = java_home(folder / "java")
    return {
        **os.environ,
        **({} if home is None else {"JAVA_HOME": home}),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.master.rest.enabled=false {QUICK_START}",
    }


class _Output:
    """The output of a process: every line goes to a file, and to waiting callers."""

    def __init__(self, lines: Iterable[str], log: Path) -> None:
        self._lines = lines
        self._log = log
        self._said: SimpleQueue[str] = SimpleQueue()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        with self._log.open("w") as file:
            for line in self._lines:
                file.write(line)
                file.flush()
                self._said.put(line)
        self._said.put("")

    def wait_for(self, pattern: str) -> str:
        """Waits for a line, not waited for before, that matches the pattern; returns the match."""
        try:
            while line := self._said.get(timeout=START_SECONDS):
                if found := re.search(pattern, line):
                    return found[1]
        except Empty:
            pass
        raise AssertionError(f"not started, see {self._log}")


@contextmanager
def _daemon(
    name: str, host: str, arguments: list[str], environment: Mapping[str, str], log: Path
) -> Iterator[_Output]:
    """Runs a daemon; all that it started ends with it."""
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
        assert process.stdout is not None
        output = _Output(process.stdout, log)
        try:
            yield output
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            output.reader.join()
