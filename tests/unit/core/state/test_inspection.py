"""What a run has found in savepoints is bounded, and can be shown without data of the application."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.state.inspection import (
    DELETED,
    MOST_CHARACTERS,
    MOST_ROWS,
    NOT_SHOWN,
    FoundRows,
    Inspection,
    LookUpRequest,
    Outcome,
    RecordsRequest,
    TopicRecord,
    bounded,
    compared_outcome,
    first_offset,
    hidden,
    hidden_columns,
    shown_bytes,
    store_names,
    without_data,
)
from streams_recovery.core.state.table import DiffCounts


def test_rows_and_cells_are_bounded_and_the_rest_is_counted() -> None:
    found = bounded(("key",), ((f"{number}" * 1,) for number in range(MOST_ROWS + 7)))
    assert (len(found.rows), found.more) == (MOST_ROWS, 7)
    [[cell]] = bounded(("key",), [("x" * 2_000,)]).rows
    assert cell == f"{'x' * MOST_CHARACTERS}… (2,000 characters)"


def test_a_row_without_data_says_where_it_is_and_whether_it_is_deleted() -> None:
    columns = ("partition", "key", "value", "timestamp")
    assert hidden_columns(columns) == ("partition", "timestamp", "value")
    assert hidden(columns, ("1", "alice", "7", "0"), deleted=False) == ("1", "0", NOT_SHOWN)
    assert hidden(columns, ("1", "alice", "", "0"), deleted=True) == ("1", "0", DELETED)


@pytest.mark.parametrize(("other", "kept"), [("", 1), ("live", 2)])
def test_what_is_shown_without_data_does_not_say_which_key_was_asked_for(other: str, kept: int) -> None:
    sentences = ("1 row", "the running application was not asked: http://127.0.0.1:8080/state/totals/alice did not answer")
    found = Inspection(
        savepoint_id="s",
        other=other,
        question="key alice of store totals in s",
        outcome=Outcome.FOUND,
        sentences=sentences,
        found=FoundRows(columns=("key",), rows=(("alice",),)),
        has_data=True,
        at=0,
        run_id="r",
        requested_by="somebody",
    )
    shown = without_data(found)
    assert shown.sentences == sentences[:kept], "those of a comparison have names and numbers only"
    assert (shown.found, shown.has_data, "alice" in shown.question) == (FoundRows(), False, False)


def test_names_are_read_from_text() -> None:
    assert store_names(" totals, minutes,,totals ") == ("totals", "minutes")
    assert store_names("") == ()


@pytest.mark.parametrize(("store", "key", "topic"), [("", None, ""), ("s", None, ""), ("", "k", ""), ("s", "k", "t"), ("", "k", "t")])
def test_a_question_is_one_of_two(store: str, key: str | None, topic: str) -> None:
    with pytest.raises(ConfigInvalid, match="one of two can be looked up"):
        LookUpRequest(savepoint="latest", store=store, key=key, topic=topic, run_id="r", requested_by="anna")


@pytest.mark.parametrize(
    ("start", "end", "wanted", "first"),
    [(0, 100, None, 90), (95, 100, None, 95), (0, 100, 20, 20), (50, 100, 20, 50), (0, 100, 500, 100), (7, 7, None, 7)],
)
def test_where_to_begin(start: int, end: int, wanted: int | None, first: int) -> None:
    assert first_offset(start, end, wanted, 10) == first


def test_an_offset_needs_its_partition() -> None:
    with pytest.raises(ConfigInvalid, match="an offset belongs to one partition"):
        RecordsRequest(topic="in", savepoint="live", partition=None, offset=3, count=1)


def test_text_is_shown_as_it_is_and_other_bytes_in_hex() -> None:
    assert [shown_bytes(data) for data in (None, b"", "gül".encode(), b"\x00\x01", b"\xff")] == [None, "", "gül", "0x0001", "0xff"]
    record = TopicRecord(topic="in", partition=1, offset=2, timestamp=3, key=b"\xff", value=None, headers=(("trace", b"x"), ("none", None)))
    assert record.as_json() == {
        "topic": "in",
        "partition": 1,
        "offset": 2,
        "timestamp": 3,
        "key_hex": "ff",
        "value": None,
        "headers": [{"key": "trace", "value": "x"}, {"key": "none", "value": None}],
    }


@pytest.mark.parametrize(
    ("alone", "left_out", "outcome"),
    [(0, 0, Outcome.EQUAL), (0, 1, Outcome.PARTLY), (1, 0, Outcome.DIFFERENT), (1, 1, Outcome.DIFFERENT)],
)
def test_stores_are_equal_only_if_all_of_both_sides_were_compared(alone: int, left_out: int, outcome: Outcome) -> None:
    same = DiffCounts(compared=3, before=3, after=3, added=0, removed=0, changed=0)
    assert compared_outcome([same], alone=alone, left_out=left_out) is outcome
    assert compared_outcome([], left_out=left_out) is Outcome.NOTHING_COMPARED
