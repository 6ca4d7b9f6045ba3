"""`rmq query`: limits are said, ids of both kinds are found."""

from __future__ import annotations

from tests.cli.conftest import Run


def test_a_cut_result_says_so(rmq: Run, topic: str) -> None:
    assert rmq("send", topic, "-k", "k", "-q", "0", stdin=b"".join(b"%d\n" % n for n in range(70))).code == 0
    query = ("query", topic, "--key", "k", "-f", r"%v\n")
    full = rmq(*query)
    assert [int(body) for body in full.out.split()] == list(range(6, 70))
    assert full.err.startswith("rmq: 64 messages shown, the newest; there may be more: use --time @:")
    few = rmq(*query, "-c", "3")
    assert few.out.split() == [b"67", b"68", b"69"]
    assert "a larger --count" in few.err
    older = few.err.split("--time ")[1].split()[0]
    assert rmq(*query, "--time", older).out.split()[-1] >= b"67"
    whole = rmq("query", topic, "--key", "k", "-c", "3", "--time", "@:-1h")
    assert "may be more" not in whole.err
