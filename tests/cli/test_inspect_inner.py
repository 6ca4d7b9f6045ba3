"""Inspections show the messages of an inner batch, not the batch."""

from __future__ import annotations

from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run
from tests.support import JavaStore


def test_the_messages_of_inner_batches(cli: Run, store_five: JavaStore) -> None:
    topic = next(line["topic"] for line in store_five.of_kind("msg") if line["sysFlag"] & 0x80)
    said = cli("inspect", "commitlog", str(store_five.root), "--topic", topic, "-f", "%o\n")
    assert len(said.lines) == 50


def test_a_batch_that_cannot_be_read_is_shown_as_stored(cli: Run, copy_java_store: object) -> None:
    store = copy_java_store("store-five")  # type: ignore[operator]
    line = next(line for line in store.of_kind("msg") if line["sysFlag"] & 0x80)
    size = 512 * 1024
    path = store.root / "commitlog" / f"{line['phy'] // size * size:020}"
    data = bytearray(path.read_bytes())
    body = line["phy"] % size + 88
    data[body : body + 4] = b"\x7f\xff\xff\xff"
    path.write_bytes(data)
    said = cli(
        "inspect", "commitlog", str(store.root), "-o", f"{line['phy']}:{line['phy'] + 1}", "-f", "%o\n"
    )
    assert (said.code, len(said.lines)) == (ExitCode.CORRUPT, 1)
    assert "shown as stored" in said.err
