"""pyright accepts, in its strict mode, a program that uses the clients; mypy checks the program with all tests."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support import PATIENCE

PROGRAM = Path(__file__).with_name("typed_program.py")


def test_pyright_accepts_a_program_in_its_strict_mode(tmp_path: Path) -> None:
    shutil.copy(PROGRAM, tmp_path)
    wrong = PROGRAM.read_text().replace("timeout=3.0", "timeout='3'")
    (tmp_path / "wrong.py").write_text(wrong)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    found = [Path(one["file"]).name for one in json.loads(done.stdout)["generalDiagnostics"]]
    # The wrong program shows that pyright looks: two sends have a timeout that is no number.
    assert found == ["wrong.py"] * 2, done.stdout
