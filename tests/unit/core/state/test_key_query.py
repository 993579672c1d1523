"""Which parts of an answer to a query by key are believed, and when it is what a savepoint has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid, Damaged
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.state.key_query import (
    MOST_WINDOWS,
    KeyAnswer,
    KeyQuestion,
    KeyWindow,
    NamedOwner,
    SavedValue,
    agrees,
    answer_fields,
    answer_of,
    as_answered,
    key_text,
    owner_of,
    same_value,
)
from streams_recovery.core.state.table import PLAIN_BYTES, Format, ValueFormat

URLS = {"one": "http://10.0.0.1:8080", "two": "http://10.0.0.2:8080/base/", "six": "https://[fd00::6]"}
TEXT = ValueFormat(format=Format.STRING)
LONG = ValueFormat(format=Format.LONG)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part))


@pytest.mark.parametrize(
    ("host", "port", "name"),
    [
        ("10.0.0.2", 8080, "two"),
        ("fd00:0:0::6", 443, "six"),
        ("[fd00::6]", 443, "six"),
        ("10.0.0.2", 8081, None),
        ("10.0.0.3", 8080, None),
        ("169.254.169.254", 80, None),
        ("10.0.0.1@evil.example", 8080, None),
        ("10.0.0.1/", 8080, None),
        ("10.0.0.1:8080", 8080, None),
        ("unavailable", 8080, None),
        ("localhost", 8080, None),
    ],
)
def test_an_owner_is_one_of_the_instances_or_nobody(host: str, port: int, name: str | None) -> None:
    assert NamedOwner(host=host, port=port).among(URLS) == name


def test_all_names_of_this_machine_are_one_where_that_tells_instances_apart() -> None:
    urls = {"one": "http://127.0.0.1:1", "two": "http://localhost:2", "three": "http://[::1]:3"}
    assert [NamedOwner(host=host, port=port).among(urls) for host, port in (("localhost", 1), ("::1", 2), ("127.0.0.2", 3))] == [*urls]
    assert NamedOwner(host="127.0.0.3", port=1).among({"one": "http://127.0.0.1:1", "two": "http://127.0.0.2:1"}) is None
    assert NamedOwner(host="127.0.0.2", port=1).among({"one": "http://127.0.0.1:1", "two": "http://127.0.0.2:1"}) == "two"


@given(st.text(max_size=30), st.integers(1, 65_535))
def test_whatever_is_named_only_instances_are_found(host: str, port: int) -> None:
    found = NamedOwner(host=host, port=port).among(URLS)
    assert found is None or found in URLS


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"host": "a"},
        {"host": "a", "port": "80"},
        {"host": "a", "port": True},
        {"host": "a", "port": 0},
        {"host": "a", "port": 65_536},
        {"host": "", "port": 80},
        {"host": "a" * 254, "port": 80},
        {"host": None, "port": 80},
    ],
)
def test_what_is_no_address_names_nobody(found: dict[str, object]) -> None:
    with pytest.raises(Damaged, match="names no owner"):
        owner_of(found, where="http://here/owner")


@pytest.mark.parametrize(
    "found",
    [
        {"found": True},
        {"found": True, "windows": []},
        {"found": True, "windows": {"start": 1, "value": 1}},
        {"found": True, "windows": [{"start": 1}]},
        {"found": True, "windows": [{"start": "1", "value": 1}]},
        {"found": True, "windows": [{"start": 2**63, "value": 1}]},
        {"found": True, "windows": [{"start": 1, "end": 1.5, "value": 1}]},
        {"found": True, "windows": [None]},
        {"found": True, "windows": [{"start": 1, "value": 1}] * (MOST_WINDOWS + 1)},
    ],
)
def test_an_answer_that_contradicts_itself_is_damaged(found: dict[str, object]) -> None:
    with pytest.raises(Damaged):
        answer_of(found, instance="one", where="here")


@pytest.mark.parametrize("found", [{}, {"value": 1}, {"found": "true", "value": 1}, {"found": 1, "value": 1}, {"found": None}])
def test_an_answer_that_does_not_say_whether_it_has_the_key_is_none(found: dict[str, object]) -> None:
    assert answer_of(found, instance="one", where="here") is None


WINDOWS = st.builds(KeyWindow, start=st.integers(-(2**63), 2**63 - 1), end=st.none() | st.integers(-(2**63), 2**63 - 1), value=JSON)
ANSWERS = (
    st.builds(KeyAnswer, instance=st.text(), found=st.sampled_from([False]))
    | st.builds(KeyAnswer, instance=st.text(), found=st.sampled_from([True]), value=JSON)
    | st.builds(
        KeyAnswer,
        instance=st.text(),
        found=st.sampled_from([True]),
        windows=st.lists(WINDOWS, min_size=1, max_size=3).map(tuple),
        more=st.booleans(),
    )
)


@given(ANSWERS)
def test_an_answer_is_told_on_as_it_was(answer: KeyAnswer) -> None:
    fields = json.loads(json.dumps(answer_fields(answer)))
    assert answer_of(fields, instance=fields["instance"], where="here") == answer


@pytest.mark.parametrize(
    ("form", "cell", "answer", "same"),
    [
        (Format.LONG, 5, 5, True),
        (Format.LONG, 5, 6, False),
        (Format.LONG, 5, "5", False),
        (Format.LONG, 1, True, False),
        (Format.DOUBLE, 0.5, 0.5, True),
        (Format.DOUBLE, 2.0, 2, True),
        (Format.DOUBLE, float("nan"), "NaN", True),
        (Format.DOUBLE, float("inf"), "Infinity", True),
        (Format.DOUBLE, float("inf"), "-Infinity", False),
        (Format.DOUBLE, 0.5, None, False),
        (Format.STRING, "a", "a", True),
        (Format.STRING, "a", "b", False),
        (Format.STRING, "a", {"a": 1}, None),
        (Format.JSON, '{"a": [1, null]}', {"a": [1, None]}, True),
        (Format.JSON, '{"a": 1}', {"a": 2}, False),
        (Format.JSON, "null", None, True),
        (Format.AVRO, '{"a": 1}', {"a": 1}, True),
        (Format.AVRO, '{"a": {"long": 1}}', {"a": 1}, None),
        (Format.BYTES, b"a", "a", None),
    ],
)
def test_a_value_is_compared_by_its_format(form: Format, cell: Any, answer: object, *, same: bool | None) -> None:
    assert same_value(ValueFormat(format=form), cell, answer) is same


def live(*windows: tuple[int, int | None, object], more: bool = False) -> KeyAnswer:
    shown = tuple(KeyWindow(start=start, end=end, value=value) for start, end, value in windows)
    return KeyAnswer(instance="one", found=bool(shown), windows=shown or None, more=more)


ABSENT = KeyAnswer(instance="one", found=False)


@pytest.mark.parametrize(
    ("kind", "saved", "answer", "same"),
    [
        (StoreKind.KEY_VALUE, [SavedValue(value=5)], KeyAnswer(instance="one", found=True, value=5), True),
        (StoreKind.KEY_VALUE, [SavedValue(value=5)], KeyAnswer(instance="one", found=True, value=6), False),
        (StoreKind.KEY_VALUE, [SavedValue(value=5)], ABSENT, False),
        (StoreKind.KEY_VALUE, [SavedValue(value=None)], ABSENT, True),
        (StoreKind.KEY_VALUE, [SavedValue(value=None)], KeyAnswer(instance="one", found=True, value=5), False),
        (StoreKind.KEY_VALUE, [], ABSENT, True),
        (StoreKind.KEY_VALUE, [SavedValue(value=5)], live((1, None, 5)), None),
        (StoreKind.KEY_VALUE, [SavedValue(value=5), SavedValue(value=5)], KeyAnswer(instance="one", found=True, value=5), None),
        (StoreKind.VERSIONED, [SavedValue(value=5)], KeyAnswer(instance="one", found=True, value=5), True),
        (StoreKind.WINDOW, [SavedValue(value=5, start=1), SavedValue(value=6, start=2)], live((2, None, 6), (1, None, 5)), True),
        (StoreKind.WINDOW, [SavedValue(value=5, start=1)], live((1, 61, 5)), True),
        (StoreKind.WINDOW, [SavedValue(value=5, start=1)], live((1, None, 6)), False),
        (StoreKind.WINDOW, [SavedValue(value=5, start=1)], live((2, None, 5)), False),
        (StoreKind.WINDOW, [SavedValue(value=5, start=1)], live((1, None, 5), more=True), None),
        (StoreKind.WINDOW, [SavedValue(value=5, start=1)], live((1, None, 6), (1, None, 5)), None),
        (StoreKind.WINDOW, [SavedValue(value=5, start=1)], KeyAnswer(instance="one", found=True, value=5), None),
        (StoreKind.SESSION, [SavedValue(value=5, start=1, end=3)], live((1, 3, 5)), True),
        (StoreKind.SESSION, [SavedValue(value=5, start=1, end=3)], live((1, 4, 5)), False),
        (StoreKind.LIST, [SavedValue(value=5)], KeyAnswer(instance="one", found=True, value=5), None),
    ],
)
def test_an_answer_is_held_against_a_savepoint(kind: StoreKind, saved: list[SavedValue], answer: KeyAnswer, *, same: bool | None) -> None:
    assert agrees(kind, LONG, saved, answer) is same


def test_bytes_cannot_be_compared_and_another_window_is_different_whatever_it_has() -> None:
    assert agrees(StoreKind.WINDOW, PLAIN_BYTES, [SavedValue(value=b"x", start=1)], live((1, None, "x"))) is None
    assert agrees(StoreKind.WINDOW, PLAIN_BYTES, [SavedValue(value=b"x", start=1)], live((2, None, "x"))) is False
    assert agrees(StoreKind.KEY_VALUE, TEXT, [SavedValue(value="x")], KeyAnswer(instance="one", found=True, value="y")) is False


@pytest.mark.parametrize("wrong", [{"key": ""}, {"key": "k" * 4_001}, {"key": "k", "start": 2, "end": 1}])
def test_what_cannot_be_asked_is_not(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigInvalid):
        KeyQuestion(store="totals", **wrong)


def test_bounds_are_those_that_were_given() -> None:
    assert KeyQuestion(store="totals", key="k", start=0).bounds == {"from": 0}
    assert KeyQuestion(store="totals", key="k", start=1, end=1).bounds == {"from": 1, "to": 1}


@pytest.mark.parametrize(
    ("form", "value", "answer", "same"),
    [
        (Format.LONG, (5).to_bytes(8, "big"), 5, True),
        (Format.LONG, (5).to_bytes(8, "big"), 6, False),
        (Format.STRING, b"x", "x", True),
        (Format.JSON, b'{"a":1}', {"a": 2}, False),
        # Of a format that the bytes do not have nothing is known.
        (Format.LONG, b"five", 5, None),
        (Format.AVRO, b"x", "x", None),
        (Format.BYTES, b"x", "x", True),
        (Format.BYTES, b"\xff", "x", None),
    ],
)
def test_bytes_are_compared_by_their_format(form: Format, value: bytes, answer: object, *, same: bool | None) -> None:
    assert as_answered(ValueFormat(format=form), value, KeyAnswer(instance="one", found=True, value=answer)) is same


def test_a_deleted_key_must_not_be_back_and_one_that_is_there_must_be_found() -> None:
    there = KeyAnswer(instance="one", found=True, value="x")
    assert [as_answered(TEXT, None, ABSENT), as_answered(TEXT, None, there), as_answered(TEXT, b"x", ABSENT)] == [True, False, False]


@pytest.mark.parametrize(
    ("form", "key", "text"),
    [
        (Format.STRING, b"alice", "alice"),
        (Format.BYTES, b"alice", "alice"),
        (Format.BYTES, b"a" * 4_001, None),
        (Format.BYTES, b"\xff", None),
        (Format.LONG, (7).to_bytes(8, "big"), "7"),
        (Format.LONG, b"alice", None),
        (Format.JSON, b'{"id":1}', '{"id":1}'),
        (Format.AVRO, b"alice", None),
    ],
)
def test_a_key_is_asked_for_as_text(form: Format, key: bytes, text: str | None) -> None:
    assert key_text(ValueFormat(format=form), key) == text
