"""`rmq up --until-eof`: a cluster that ends with the process that started it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rmqcli.client import Message
from rmqcli.client.sync import Producer
from tests.support import PATIENCE

UP = [sys.executable, "-m", "rmqcli", "up", "--until-eof", "--port", "0", "--namesrv-port", "0", "--json"]


def test_the_end_of_standard_input_stops_the_cluster() -> None:
    with subprocess.Popen(UP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin is not None and process.stdout is not None
            namesrv = json.loads(process.stdout.readline())["namesrv"]
            process.stdin.write("a line is discarded\n")
            process.stdin.flush()
            with Producer(namesrv=namesrv) as producer:
                producer.send(Message.of("orders", b"1"))
            assert process.poll() is None
            process.stdin.close()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("redirection", ["</dev/null", "<&-"])
def test_a_standard_input_without_data_stops_it_at_once(redirection: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *UP],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["namesrv"]
