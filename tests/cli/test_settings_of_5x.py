"""`--attribute`, `--orderly` and `--retry-policy`: what mqadmin of 5.x sets by `-a`, `-o` and `-p`."""

from __future__ import annotations

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.codec.bodies.config import GroupRetryPolicy
from rmqcli.grammar.values import GrammarError, parse_retry_policy, retry_policy_text
from tests.cli.conftest import Run


def attributes(rmq: Run, topic: str) -> list[str]:
    (row,) = rmq("topic", "describe", topic, "--json").json
    return list(row["attributes"])


def test_attributes_are_set_shown_and_removed(rmq: Run, topic: str) -> None:
    made = f"{topic}_typed"
    created = rmq(
        "topic", "create", made, "--attribute", "message.type=FIFO", "--attribute", "queue.type=SimpleCQ"
    )
    assert (created.code, created.err) == (0, f"topic {made} created on broker-a\n")
    assert attributes(rmq, made) == ["message.type=FIFO", "queue.type=SimpleCQ"]
    assert rmq("topic", "describe", made).lines[0][-1] == "message.type=FIFO,queue.type=SimpleCQ"
    assert rmq("topic", "update", made, "--attribute", "message.type=DELAY").code == 0
    assert rmq("topic", "update", made, "--queues", "2").code == 0
    assert attributes(rmq, made) == ["message.type=DELAY", "queue.type=SimpleCQ"]
    assert rmq("topic", "update", made, "--remove-attribute", "message.type").code == 0
    assert attributes(rmq, made) == ["queue.type=SimpleCQ"]
    refused = rmq("topic", "update", made, "--attribute", "queue.type=BatchCQ")
    assert (refused.code, "attempt to update an unchangeable attribute" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("--attribute", "message.type"), "expected NAME=VALUE, without commas"),
        (("--attribute", "a=1,+b=2"), "expected NAME=VALUE, without commas"),
        (("--attribute", "a="), "expected NAME=VALUE, without commas"),
        (("--remove-attribute", "a=1"), "expected the name of an attribute"),
        (("--attribute", "a=1", "--remove-attribute", "a"), "attribute a is named twice"),
    ],
)
def test_what_is_no_attribute_is_a_usage_error(
    rmq: Run, topic: str, given: tuple[str, ...], text: str
) -> None:
    wrong = rmq("topic", "update", topic, *given)
    assert (wrong.code, wrong.out, text in wrong.err) == (ExitCode.USAGE, b"", True)


def test_settings_of_a_group_for_proxies(rmq: Run, topic: str) -> None:
    group = f"G5_{topic}"
    assert rmq("group", "create", group, "--orderly", "--retry-policy", "5s..2h").code == 0
    (row,) = rmq("group", "settings", group, "--json").json
    assert (row["consumeMessageOrderly"], row["retryPolicy"]) == (True, "5s..2h*2")
    assert rmq("group", "update", group, "--retry-policy", "10s,1m30s").code == 0
    (row,) = rmq("group", "settings", group, "--json").json
    assert (row["consumeMessageOrderly"], row["retryPolicy"]) == (True, "10s,90s")
    wrong = rmq("group", "update", group, "--retry-policy", "soon")
    assert (wrong.code, wrong.err.count("\n")) == (ExitCode.USAGE, 1)


@pytest.mark.parametrize("text", ["10s", "500ms,1m,2h", "5s..2h*2", "1s..1s*30"])
def test_retry_policies_are_written_as_they_are_read(text: str) -> None:
    assert retry_policy_text(parse_retry_policy(text)) == text


@pytest.mark.parametrize("text", ["", "0s", "5", "5s,", "2h..5s", "5s..2h*0", "5s..", "a..b", "1s*2..2s"])
def test_what_is_no_retry_policy_is_refused(text: str) -> None:
    with pytest.raises(GrammarError, match="retry policy"):
        parse_retry_policy(text)


def test_a_policy_without_delays_is_the_default_of_the_proxy() -> None:
    assert retry_policy_text(GroupRetryPolicy()) == "default"
