"""Read-ahead in the files of the commit log: what the kernel says of their mappings (`rr`, read at random)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.codes import ResponseCode
from tests.broker.support import fake_broker

FILE = 1 << 20


def at_random(folder: Path) -> list[bool]:
    """For each mapped file of a commit log, in order: True if the kernel reads nothing ahead in it."""
    smaps = Path("/proc/self/smaps").read_text()
    heads = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps, flags=re.MULTILINE)
    found = {}
    for head in heads:
        path = head.split("\n", 1)[0].split(" ")[-1]
        if Path(path).parent == folder / "commitlog":
            found[path] = " rr" in re.findall("VmFlags:(.*)", head)[0]
    return [found[path] for path in sorted(found)]


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_all_files_of_the_log_follow_the_mode(tmp_path: Path, flush: str) -> None:
    settings = {"mapped_file_size_commit_log": FILE, "flush_disk_type": flush}
    path = tmp_path / "broker.conf"
    path.write_text("")
    async with fake_broker(tmp_path, broker_config_path=str(path), **settings) as fake:
        client = fake.client()
        for _ in range(3):
            assert (await client.send("T", bytes(FILE - 3000))).code == 0
        assert len(at_random(tmp_path)) >= 3
        reply = await client.ask(R.SET_COMMITLOG_READ_MODE, {"READ_AHEAD_MODE": "1"})
        assert (reply.code, reply.remark) == (0, "dataReadAheadEnable=false")
        assert all(at_random(tmp_path))
        assert b"dataReadAheadEnable=false\n" in (await client.ask(R.GET_BROKER_CONFIG)).body
        for _ in range(3):
            assert (await client.send("T", bytes(FILE - 3000))).code == 0
        assert all(at_random(tmp_path)), "files to come, too"
        assert path.read_text() == "", "until the next start, as in Java"
        assert (await client.ask(R.SET_COMMITLOG_READ_MODE, {"READ_AHEAD_MODE": "0"})).code == 0
        assert not any(at_random(tmp_path)[:3]), "SYNC_FLUSH keeps the file that it writes at random"
        refused = await client.ask(R.SET_COMMITLOG_READ_MODE, {"READ_AHEAD_MODE": "2"})
        assert (refused.code, refused.remark) == (
            ResponseCode.INVALID_PARAMETER,
            "READ_AHEAD_MODE=2: 0 (normal) or 1 (random) is expected",
        )
        assert (await client.ask(R.UPDATE_BROKER_CONFIG, None, b"dataReadAheadEnable=false\n")).code == 0
        assert all(at_random(tmp_path))
        assert "dataReadAheadEnable=false" in path.read_text()
    async with fake_broker(tmp_path, data_read_ahead_enable=False, **settings):
        assert at_random(tmp_path)
        assert all(at_random(tmp_path)), "a start says it of the files that it finds"


async def test_a_slave_remembers_how_far_its_master_has_flushed(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, broker_role="SLAVE", broker_id=1) as fake:
        client = fake.client()
        assert (await client.ask(R.RESET_MASTER_FLUSH_OFFSET, {"masterFlushOffset": "4096"})).code == 0
        assert fake.context.store.master_flushed_offset == 4096
        refused = await client.ask(R.RESET_MASTER_FLUSH_OFFSET, {"masterFlushOffset": "-1"})
        assert refused.remark == "masterFlushOffset=-1: a number from 0 is expected"
    async with fake_broker(tmp_path, broker_role="SLAVE", broker_id=1) as fake:
        assert fake.context.store.master_flushed_offset == 4096, "the checkpoint keeps it"
