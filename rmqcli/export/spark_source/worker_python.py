"""A check of Spark's worker Python: without rmqcli every query would end in an obscure traceback."""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

from rmqcli.export.spark.master import is_local

_LOOK = "import sys; from importlib.util import find_spec; sys.exit(find_spec('rmqcli') is None)"


def warn_of_other_python() -> None:
    """Warns in the driver of a session on this machine; other machines cannot be checked."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None and is_local(context.master or "") and not _has_package(context.pythonExec):
        warnings.warn(
            f"Spark's workers run {context.pythonExec}, which does not have rmqcli; before the session is made, "
            'set os.environ["PYSPARK_PYTHON"] = sys.executable',
            stacklevel=4,
        )


@cache
def _has_package(python: str) -> bool:
    found = shutil.which(python)
    if found is None or Path(found).parent == Path(sys.executable).parent:
        return True
    return subprocess.run([found, "-c", _LOOK], capture_output=True, check=False).returncode == 0
