"""The tolerant JSON reader: forms of fastjson, standard JSON, references, limits, linear time."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.errors import BodyError
from rmqcli.codec.fastjson import (
    FASTJSON,
    STANDARD,
    JsonDialect,
    dumps,
    dumps_in_steps,
    expanded_size,
    loads,
    loads_finite,
)
from tests.seeds import times

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8).filter("$ref".__ne__), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from([None, 0, 2]), st.booleans())
def test_every_json_text_means_what_json_says(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert loads(text) == value
    if ascii_only or "\\ud" not in json.dumps(value):
        assert loads(text.encode("utf-8", "surrogatepass") if ascii_only else text.encode()) == value


def _in_steps(value: Any, dialect: JsonDialect, pretty: bool) -> tuple[str, int]:
    """The text, and the number of steps."""
    steps, count = dumps_in_steps(value, dialect=dialect, pretty=pretty), 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value.decode(), count
        count += 1


@given(JSON, st.sampled_from([FASTJSON, STANDARD]), st.booleans(), st.sampled_from([1, 3]))
def test_a_text_written_in_steps_is_the_same(
    value: Any, dialect: JsonDialect, pretty: bool, pieces: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("rmqcli.codec.fastjson_writer.PIECES_PER_STEP", pieces)
        patched.setattr("rmqcli.codec.fastjson_writer.SHORT_TABLE", pieces)
        text, _ = _in_steps(value, dialect, pretty)
    assert text == dumps(value, dialect=dialect, pretty=pretty)


@pytest.mark.parametrize(
    "table",
    [
        {f"T@G{n}": {0: n, 1: n} for n in range(1000)},
        {"T@G": {n: n for n in range(4000)}},
        {"T": [{"a": str(n)} for n in range(2000)]},
    ],
)
def test_no_step_of_a_long_text_is_long(table: dict[str, Any]) -> None:
    for pretty in (True, False):
        text, steps = _in_steps(table, FASTJSON, pretty)
        assert text == dumps(table, dialect=FASTJSON, pretty=pretty)
        assert steps >= 8


def test_a_table_may_change_between_steps() -> None:
    table = {0: 1, **{n: n for n in range(1, 1000)}}
    steps = dumps_in_steps({"T@G": table}, dialect=FASTJSON)
    next(steps)
    table[1000] = 5
    del table[999]
    with pytest.raises(StopIteration) as end:
        for _ in range(100):
            next(steps)
    assert end.value.value.startswith(b'{"T@G":{0:1,1:1,2:2')


@given(JSON)
def test_what_is_written_is_read(value: Any) -> None:
    assert loads(dumps(value)) == _without_none(value)
    assert loads(dumps(value, pretty=True)) == _without_none(value)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{0:1,-1:2}", {"0": 1, "-1": 2}),
        ("{ 12 : 'x' }", {"12": "x"}),
        ("{a:1,$b_2:2,true:3,null:4}", {"a": 1, "$b_2": 2, "true": 3, "null": 4}),
        ("{'a':'it''s'}".replace("''", "\\'"), {"a": "it's"}),
        ('{{"topic":"T","queueId":0}:3}', {'{"topic":"T","queueId":0}': 3}),
        ('{{"a":{"b":[1,2]}}:{{"c":1}:2}}', {'{"a":{"b":[1,2]}}': {'{"c":1}': 2}}),
        ("[1,2,]", [1, 2]),
        ('{"a":1,}', {"a": 1}),
        ("[]", []),
        (" {} ", {}),
        ("[true,false,null,NaN,undefined]", [True, False, None, None, None]),
        ("[9223372036854775807,-9223372036854775808]", [2**63 - 1, -(2**63)]),
        ("[18446744073709551616]", [2**64]),
        ("[1.5,-0.0,1E3,1e-2,.5,7L]", [1.5, -0.0, 1000.0, 0.01, 0.5, 7]),
        (r'"\u00e9\ud83d\ude00\x41\/\b\f\n\r\t\v\0\q"', "é😀A/\b\f\n\r\t\v\0q"),
        (r'"\ud800"', "�"),
        ('"tab\there"', "tab\there"),
        ('{"a":1,"a":2}', {"a": 2}),
        ('{0:{"1":[{2:"x:{3:4}"}]}}', {"0": {"1": [{"2": "x:{3:4}"}]}}),
    ],
)
def test_forms(text: str, expected: Any) -> None:
    assert loads(text) == expected
    assert loads(text.encode()) == expected
    assert loads(memoryview(text.encode())) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "at character 0: expected a value"),
        ("   ", "expected a value"),
        ("{", "expected a key or }"),
        ("[", "expected an item or ]"),
        ('{"a"}', "expected :"),
        ('{"a":}', "a value before '}'"),
        ('{"a":1 "b":2}', "expected , or }"),
        ("{,}", "expected a key"),
        ("[,]", "a value before ','"),
        ("[1 2]", "expected , or ]"),
        ("[1}", "expected , or ]"),
        ('{"a":1]', "expected , or }"),
        ("nil", "a value before 'nil'"),
        ('"open', "expected a value"),
        ("'open", "expected a value"),
        ("1 1", "expected the end"),
        ("{[1]:2}", "expected a key"),
        ("{{{1:2}:3}:4}", "expected a key"),
        ("[1.2.3]", "'1.2.3' is not a number"),
        ("[1-2]", "is not a number"),
        ("[" + "9" * 65 + "]", "a number of 65 characters"),
        ("{/**/}", "expected a key"),
    ],
)
def test_refusals(text: str, problem: str) -> None:
    with pytest.raises(BodyError, match=problem):
        loads(text)


def test_bytes_that_are_not_utf8() -> None:
    with pytest.raises(BodyError, match="not UTF-8 at byte 2"):
        loads(b'"a\xff"')


# ---- references


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":[{"b":1}],"c":{"$ref":"$.a[0]"}}', {"a": [{"b": 1}], "c": {"b": 1}}),
        ('[{"x":1},{"$ref":"$[0]"}]', [{"x": 1}, {"x": 1}]),
        ('{"a":{"b":{"c":[1]}},"d":{"$ref":"$.a.b.c"}}', {"a": {"b": {"c": [1]}}, "d": [1]}),
        (r'{"%RETRY%g":[1],"y":{"$ref":"$.\\%RETRY\\%g"}}', {"%RETRY%g": [1], "y": [1]}),
        ('{"a.b":[1],"y":{"$ref":"$[\'a.b\']"}}', {"a.b": [1], "y": [1]}),
        ('{"a":{0:[1]},"y":{"$ref":"$.a[0]"}}', {"a": {"0": [1]}, "y": [1]}),
        ('{"y":{"$ref":"$.z"},"z":[1]}', {"y": [1], "z": [1]}),
        ('{"a":{"$ref":"$.b"},"c":{"$ref":"$.a"},"b":[1]}', {"a": [1], "c": [1], "b": [1]}),
        ('{"y":{"$ref":"$.nothing"}}', {"y": None}),
        ('{"a":[1],"y":{"$ref":"$.a[7]"}}', {"a": [1], "y": None}),
        ('{"a":1,"y":{"$ref":"$.a.b"}}', {"a": 1, "y": None}),
        ('{"y":{"$ref":"elsewhere"}}', {"y": None}),
        ('{"y":{"$ref":"$!"}}', {"y": None}),
        ('{"y":{"$ref":5}}', {"y": {"$ref": 5}}),
        ('{"y":{"$ref":"$","z":1}}', {"y": {"$ref": "$", "z": 1}}),
        ('{"x":{"t":"T"},"y":{{"$ref":"$.x"}:3}}', {"x": {"t": "T"}, "y": {'{"t":"T"}': 3}}),
        ('{"y":{{"$ref":"$.x"}:3}}', {"y": {'{"$ref":"$.x"}': 3}}),
        ('{"$ref":".."}', {"$ref": ".."}),
        ('[{"$ref":".."}]', [None]),
    ],
)
def test_references(text: str, expected: Any) -> None:
    assert loads(text) == expected


def test_references_to_what_is_around_them() -> None:
    root = loads('{"root":{"$ref":"$"},"in":{"up":{"$ref":".."},"me":{"$ref":"@"},"list":[{"$ref":".."}]}}')
    assert root["root"] is root
    assert root["in"]["up"] is root
    assert root["in"]["me"] is root["in"]
    assert root["in"]["list"][0] is root["in"]


def test_endless_and_multiplying_values_are_refused_when_they_will_be_walked() -> None:
    with pytest.raises(BodyError, match="128 levels"):
        loads_finite('{"a":{"$ref":"$"}}')
    with pytest.raises(BodyError, match="128 levels"):
        loads_finite(r'{"a":{"\u0024ref":"$"}}')
    doubling = (
        '{"a0":[1]'
        + "".join(f',"a{n}":[{{"$ref":"$.a{n - 1}"}},{{"$ref":"$.a{n - 1}"}}]' for n in range(1, 60))
        + "}"
    )
    assert len(loads(doubling)) == 60
    with pytest.raises(BodyError, match="more than 4000000 values"):
        loads_finite(doubling)
    assert expanded_size({"a": [1, 2], "b": "x"}, 10) == 5


def test_shared_texts_count_by_their_length() -> None:
    assert expanded_size({"a": "x" * 128, "b" * 64: ["", 1]}, 10) == 8
    shared = '{"a":{"s":"' + "x" * 1_000_000 + '"},"b":[' + ",".join(['{"$ref":"$.a"}'] * 1000) + "]}"
    with pytest.raises(BodyError, match="more than 4000000 values"):
        loads_finite(shared)


@pytest.mark.parametrize(
    "target", [{"t": "x" * 1_000_000}, {"x" * 1_000_000: 1}, {str(n): n for n in range(100_000)}, {"t": [1]}]
)
def test_keys_refer_to_small_objects_only(target: dict[str, Any]) -> None:
    keys = ",".join(['{{"$ref":"$.a"}:1}'] * 20_000)
    started = time.process_time()
    value = loads(f'{{"a":{json.dumps(target)},"b":[{keys}]}}')
    assert value["b"][0] == {'{"$ref":"$.a"}': 1}
    # Writing the object out for each key would take minutes, and all of the memory.
    assert time.process_time() - started < 20


# ---- limits and time


def test_depth() -> None:
    assert loads("[" * 128 + "]" * 128)
    for text in ("[" * 129, '{"a":' * 129, "[" * 1_000_000, '[{"a":' * 500_000):
        with pytest.raises(BodyError, match="deeper than 128"):
            loads(text)


def test_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqcli.codec.fastjson.MAX_TEXT", 10)
    assert loads("[1,2,3,4]") == [1, 2, 3, 4]
    with pytest.raises(BodyError, match="JSON of 11 bytes; the limit is 10"):
        loads("[1,2,3,4,5]")


@pytest.mark.parametrize(
    "piece",
    [
        '"',
        "'",
        "\\",
        '\\"',
        '"\\"',
        "{",
        "[",
        "{{",
        "1",
        "-",
        "1e",
        ".",
        "a",
        " ",
        ",",
        ":",
        "[1,",
        "{1:",
        '{"":',
        "\\u",
        "{{1:1}:",
        '{"$ref":"$',
        "x'",
    ],
)
def test_hostile_repetition_takes_linear_time(piece: str) -> None:
    def seconds(count: int) -> float:
        text = '["' * (piece in {"\\", '\\"', "\\u"}) + piece * count
        started = time.process_time()
        with pytest.raises(BodyError):
            loads(text)
        return time.process_time() - started

    # Quadratic time would need hours for this.
    assert seconds(300_000 // len(piece)) < 5


@settings(max_examples=times(75), deadline=None)
@given(st.text(st.sampled_from("{}[]:,\"'\\$ref.@01-eE tfnua "), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(BodyError):
        loads_finite(text)


def test_bare_keys_are_written_only_in_fastjsons_dialect() -> None:
    assert dumps({1: {2: [3]}}, dialect=FASTJSON) == "{1:{2:[3]}}"
    assert dumps({1: {2: [3]}}) == '{"1":{"2":[3]}}'
    assert dumps({"a": None, "b": [None]}) == '{"b":[null]}'


def test_pretty_text() -> None:
    value = {"a": [1, {"b": 2}], "c": (3, 4), "d": {}, "e": [], 5: {6: 7}}
    assert dumps(value, dialect=FASTJSON, pretty=True).replace("\t", ">") == "\n".join(
        [
            "{",
            '>"a":[',
            ">>1,",
            ">>{",
            '>>>"b":2',
            ">>}",
            ">],",
            '>"c":[3,4],',
            '>"d":{},',
            '>"e":[],5:{6:7',
            ">}",
            "}",
        ]
    )
