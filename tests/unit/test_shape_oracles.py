"""The oracles of shapes of state, by examples that are worked out by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.applications.shape_inputs import SIDES, TIMED, part, questions
from tests.support.applications.shape_oracles import DIFFERENCE, GAP, GRACE, MINUTE, ORACLES, PARTITIONS, Given
from tests.support.applications.shapes import unlike

LATE = 10 * (DIFFERENCE + GRACE)


def left(value: str | None, at: int, key: str = "k") -> Given:
    return Given(side="left", key=key, value=value, at=at)


def right(value: str | None, at: int, key: str = "k") -> Given:
    return Given(side="right", key=key, value=value, at=at)


def came(value: str, at: int, trace: str | None = None) -> Given:
    return Given(side="in", key="k", value=value, at=at, trace=trace)


def test_records_of_two_streams_meet_up_to_the_difference_and_across_a_savepoint() -> None:
    before, after = [left("a", 0)], [right("x", DIFFERENCE), right("y", DIFFERENCE + 1), left("other", 0, key="q")]
    assert ORACLES["inner"](before, after).written == Counter({("k", "a|x"): 1})
    assert ORACLES["inner"]([*before, *after], []).written == Counter()


def test_what_found_nobody_is_told_once_its_window_is_over() -> None:
    alone, met = [left("a", 0), right("r", 3 * DIFFERENCE)], [left("close", LATE)]
    assert ORACLES["left"](alone, met).written == Counter({("k", "a|null"): 1})
    assert ORACLES["outer"](alone, met).written == Counter({("k", "a|null"): 1, ("k", "null|r"): 1})
    assert ORACLES["outer"](alone, []).written == Counter()


def test_tables_have_the_last_value_of_each_side() -> None:
    answer = ORACLES["tables"]([left("a", 0), right("x", 0), right("only", 0, "q")], [left("b", 0), right(None, 0)])
    assert answer.kept["tables-inner"] == {}
    assert answer.kept["tables-joined-left"] == {"k": "b|null"}
    assert answer.kept["tables-outer"] == {"k": "b|null", "q": "null|only"}
    assert answer.last["inner:k"] is None
    assert ORACLES["foreign"]([left("p:a", 0)], [right("x", 0, "p")]).kept["foreign-inner"] == {"k": "p:a|x"}


def test_counts_go_on_where_the_state_is_kept_and_begin_again_where_it_is_not() -> None:
    answer = ORACLES["unlogged"]([came("1", 0), came("1", 1)], [came("1", 2)])
    assert answer.written == Counter({("with:k", "3"): 1, ("without:k", "1"): 1})
    written = ORACLES["memory"]([came("1", 0)], [came("1", GAP), came("1", 2 * GAP + 1)]).written
    assert written == Counter(
        {
            ("all:k", "2"): 1,
            ("all:k", "3"): 1,
            ("minute:k@0", "2"): 1,
            (f"minute:k@{MINUTE}", "1"): 1,
            (f"session:k@0-{GAP}", "2"): 1,
            (f"session:k@{2 * GAP + 1}-{2 * GAP + 1}", "1"): 1,
        }
    )


def test_a_minute_is_told_when_it_is_over_with_the_last_header_in_it() -> None:
    before, after = [came("1", 0, "first"), came("1", 1, "second")], [came("1", MINUTE, "next")]
    assert ORACLES["suppressed"](before, after).written == Counter({("k@0", "2|second"): 1})


def test_a_stream_meets_what_a_table_had_at_its_time() -> None:
    versions = [Given(side="table", key="k", value=value, at=at) for value, at in (("new", 20), ("old", 10), (None, 30))]
    asks = [came(f"at {at}", at) for at in (9, 10, 19, 20, 30)]
    assert ORACLES["versioned"](versions, asks).written == Counter(
        {("k", f"at {at}|{value}"): 1 for at, value in ((9, "null"), (10, "old"), (19, "old"), (20, "new"), (30, "null"))}
    )


def test_sums_leave_out_what_is_too_new() -> None:
    assert ORACLES["punctuated"]([came("1", 0)], [Given(side="in", key=key, value="5", at=2 * MINUTE) for key in "abcdefghk"]).kept == {
        "punctuated-sums": {"k": 1}
    }


def test_a_wrong_result_a_missing_one_and_one_too_many_are_told() -> None:
    answer = ORACLES["inner"]([left("a", 0)], [right("x", 0)])
    right_one = ("k", "a|x")
    assert unlike([right_one], answer) == []
    assert all(unlike(written, answer) for written in ([], [right_one, right_one], [("k", "a|y")]))


def test_what_is_due_is_known_from_whatever_was_said_before() -> None:
    said, asked = [came(f"due {MINUTE}", 0)], [came("now", MINUTE)]
    assert ORACLES["ahead"](said, asked).written == Counter({("k", f"now|due {MINUTE}"): 1})
    assert ORACLES["ahead"]([], asked).written == Counter({("k", "now|null"): 1})


# What is written ahead of its time has inputs of its own, where it is tested.
@pytest.mark.parametrize("shape", [shape for shape in SIDES if shape != "ahead"])
def test_the_state_of_each_shape_shows_in_what_comes_after_it(shape: str) -> None:
    """Whoever had forgotten the first part would write or keep something else: inputs for which that is not so would prove nothing."""
    parts = [[one for batch in part(shape, number, 0, last=number == 3) for one in batch] for number in (1, 2, 3)]
    after = [*parts[1], *parts[2], *(questions(0, 3) if shape == "versioned" else [])]
    assert {one.partition for one in parts[2]} == set(range(PARTITIONS))
    with_state, without = ORACLES[shape](parts[0], after), ORACLES[shape]([], after)
    assert (with_state.written, with_state.last, with_state.kept) != (without.written, without.last, without.kept)
    if with_state.written is not None:
        assert with_state.written != without.written, "its results alone tell"
    assert (parts[2][-1].trace == "closing") == (shape in TIMED)
