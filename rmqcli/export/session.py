"""A Spark session for one export: quiet unless asked, this Python for its workers."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rmqcli.export.errors import ExportError
from rmqcli.export.java import java_home

__all__ = ["spark_session"]

DEFAULT_MASTER = "local[*]"
_SETTINGS = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


@contextmanager
def spark_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, *, verbose: bool = False
) -> Iterator[Any]:
    """A session that ends with the block; a session that runs already in this process is used as it is, and left.

    ExportError, with what Spark said last, when it does not start.
    """
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise ExportError("--spark needs PySpark: `pip install 'rmqcli[spark]'`") from None
    if SparkContext._active_spark_context is not None:  # the active session is known to its own thread only
        yield SparkSession.builder.getOrCreate()
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-spark-")))
        stack.enter_context(_environment(folder))
        builder = SparkSession.builder.appName("rmq export").master(master or DEFAULT_MASTER)
        for name, value in {**_SETTINGS, **(conf or {})}.items():
            builder = builder.config(name, value)
        session = _start(builder, folder / "start.log", verbose)
        stack.callback(session.stop)
        session.sparkContext.setLogLevel("WARN" if verbose else "OFF")
        yield session


def _start(builder: Any, log: Path, verbose: bool) -> Any:
    try:
        with _quiet(log, verbose):
            return builder.getOrCreate()
    except Exception as error:  # Py4J and the launcher raise many kinds; the log says why
        said = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        telling = [line for line in said if "rror" in line or "xception" in line]
        raise ExportError(f"Spark did not start: {(telling or said or [str(error)])[0].strip()}") from error


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    # Spark starts `python3` from PATH for its workers, whatever runs the driver.
    wanted = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    home = java_home(folder / "java")
    if home is not None:
        wanted["JAVA_HOME"] = home
    if "SPARK_LOCAL_IP" not in os.environ:
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _quiet(log: Path, verbose: bool) -> Iterator[None]:
    """Standard error of the JVM that is started meanwhile, and of its workers, goes to a file for good: the launcher prints
    before any log setting holds.
    """
    if verbose:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("wb") as handle:
            os.dup2(handle.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
