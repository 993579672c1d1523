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
    bounded,
    hidden,
    hidden_columns,
    store_names,
    without_data,
)


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
