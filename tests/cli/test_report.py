"""`rmq report`: where the page goes, what is said beside it, and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run
from tests.report.parsing import read
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]


def test_a_cluster(rmq: Run, topic: str, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    for number in range(3):
        rmq("send", topic, str(number), "-k", "k")
    written = rmq("report", "--out", str(out), "-c", "9999")  # the cluster has the topics of many tests
    assert (written.code, written.out) == (0, b"")
    assert written.err.startswith(f"wrote {out} (")
    page = read(out.read_text())
    # The messages of a day and the rate are of samples that a broker takes every ten seconds.
    assert [row[4:6] for row in page.tables["Topics"] if row[0] == topic] == [["3", "4"]]
    assert page.tables["Brokers"][1][0] == "broker-a"
    assert out.stat().st_mode & 0o777 == 0o666 & ~umask()
    assert [path.name for path in tmp_path.glob("page*")] == ["page.html"]


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_store_and_its_damage(cli: Run, copy_java_store: Copy, tmp_path: Path) -> None:
    store, out = copy_java_store("store-clean"), tmp_path / "page.html"
    sound = cli("report", "--store", str(store.root), "--out", str(out), "--json")
    assert (sound.code, sound.json["out"], sound.json["bytes"]) == (0, str(out), out.stat().st_size)
    refused = cli("report", "--store", str(store.root), "--out", str(out))
    assert (refused.code, refused.err) == (ExitCode.USAGE, f"rmq: {out}: exists; --replace overwrites it\n")
    path = sorted((store.root / "commitlog").iterdir())[0]
    with path.open("r+b") as file:
        file.seek(store.of_kind("msg")[7]["phy"] + 4)
        file.write(b"\xff")
    broken = cli(
        "report", "--store", str(store.root), "--out", str(out), "--replace", "--no-verify", "--json"
    )
    assert (broken.code, broken.json["attention"][0]["status"]) == (ExitCode.CORRUPT, "fail")
    assert "unreadable in 1 place" in out.read_text()


def test_standard_output(rmq: Run) -> None:
    found = rmq("report", "--out", "-", "-c", "1")
    assert (found.code, found.err) == (0, "")
    assert "brokers" in read(found.out.decode()).ids


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--out", "{folder}"), ExitCode.USAGE, "is a folder; name a file with --out"),
        (("--out", "{folder}/none/r.html"), ExitCode.NOT_FOUND, "no such folder"),
        (("--out", "-", "--json"), ExitCode.USAGE, "--json tells what was written"),
        (("--out", "-", "--no-verify"), ExitCode.USAGE, "--jobs and --no-verify require --store"),
        (("--out", "-", "--store", "{folder}"), ExitCode.NOT_FOUND, "{folder}"),
        (("--out", "-", "-n", "127.0.0.1:1"), ExitCode.NO_CONNECTION, "127.0.0.1:1"),
        ((), ExitCode.USAGE, "--out"),
    ],
)
def test_refusals(cli: Run, tmp_path: Path, words: tuple[str, ...], code: ExitCode, text: str) -> None:
    given = [word.format(folder=tmp_path) for word in words]
    found = cli("report", *given)
    assert (found.code, found.out, found.err.count("\n")) == (code, b"", 1)
    assert text.format(folder=tmp_path) in found.err


def test_without_the_extra(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygal", None)
    found = cli("report", "--out", "-")
    text = "rmq: package pygal is not installed: pip install 'rmqcli[report]'\n"
    assert (found.code, found.err) == (ExitCode.USAGE, text)
