"""The client library, the commands for clients and the in-memory cluster, without POSIX-only modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rmqcli.broker import embedded_in_thread

ROOT = Path(__file__).parents[2]
COMMAND = """
import sys
import tests.platforms.windows
from rmqcli.cli.app import run
sys.exit(run(sys.argv[1:]))
"""
IN_MEMORY = """
import tests.platforms.windows
import trio
from rmqcli.broker import embedded_in_memory
from rmqcli.client import Admin, LitePullConsumer, Message, Producer, PullConsumer, PushConsumer

async def main():
    async with embedded_in_memory() as cluster:
        async with Producer("group", **cluster.client()) as producer:
            result = await producer.send(Message.of("orders", b"hello"))
        async with PullConsumer("readers", **cluster.client()) as consumer:
            pulled = await consumer.pull(result.message_queue, 0)
        print([message.body for message in pulled.messages])

trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
"""
STORE = """
import tests.platforms.windows
import trio
from rmqcli.broker import embedded

async def main():
    async with embedded():
        pass

trio.run(main)
"""


def ran(code: str, *arguments: str) -> tuple[int, str, str]:
    """Run a program; return its status, output and errors."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_a_cluster_in_memory() -> None:
    assert ran(IN_MEMORY) == (0, "[b'hello']\n", "")


def test_commands_of_a_client() -> None:
    with embedded_in_thread() as cluster:
        at = ("-n", cluster.namesrv)
        assert ran(COMMAND, "send", "orders", "hello", *at)[::2] == (0, "")
        for words, end in ((["pull", "orders"], "\thello\n"), (["topic", "list"], "orders\n")):
            status, out, _ = ran(COMMAND, *words, *at)
            assert status == 0
            assert out.endswith(end)


@pytest.mark.parametrize(
    "words", ["send", "pull", "tail", "consume", "query", "request", "topic", "group", "offsets", "check"]
)
def test_help_of_a_command(words: str) -> None:
    status, out, err = ran(COMMAND, words, "--help")
    assert (status, err) == (0, "") and out.startswith("Usage: rmq ")


@pytest.mark.parametrize("words", ["up", "broker", "namesrv", "inspect store ."])
def test_servers_and_stores_need_posix(words: str, tmp_path: Path) -> None:
    status, out, err = ran(COMMAND, *words.split())
    assert (status, out) == (1, "")
    assert err.startswith("rmq: this needs POSIX, such as Linux or macOS: ")
    assert err.count("\n") == 1


def test_a_store_needs_posix() -> None:
    assert ran(STORE)[2].endswith(
        "StoreError: a store needs POSIX, such as Linux or macOS: choose a cluster in memory\n"
    )
