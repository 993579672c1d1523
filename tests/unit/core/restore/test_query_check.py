"""Answers of an application are held against what can be read of a savepoint, and only against that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.restore.query_check import QueryCheck, chosen, judge, judge_keys

SAMPLE = {b"a": b'{"n":1}', b"b": b"two", b"c": b'{"n":3}'}
ANSWERS: dict[str, object] = {"a": {"n": 1}, "b": "two", "c": {"n": 3}, "d": "other"}


def judged(sample: dict[bytes, bytes], answers: dict[str, object], changed: frozenset[bytes] = frozenset()) -> QueryCheck:
    return judge("s", sample, answers, changed)


def test_equal_answers_are_counted() -> None:
    assert judged(SAMPLE, ANSWERS) == QueryCheck(store="s", sampled=3, equal=3, changed=0, unreadable=0, different=())


def test_another_value_and_a_missing_key_are_different() -> None:
    assert judged(SAMPLE, ANSWERS | {"a": {"n": 2}}).different == ("a",)
    assert judged(SAMPLE, {key: value for key, value in ANSWERS.items() if key != "c"}).different == ("c",)


def test_a_key_that_was_written_again_is_left_out() -> None:
    found = judged(SAMPLE, ANSWERS | {"a": {"n": 2}}, frozenset({b"a"}))
    assert (found.equal, found.changed, found.different) == (2, 1, ())


def test_keys_shown_in_another_way_prove_nothing() -> None:
    found = judged(SAMPLE, {f"key {key}": value for key, value in ANSWERS.items()})
    assert (found.equal, found.unreadable, found.different) == (0, 3, ())


def test_an_empty_answer_lacks_every_key_that_nobody_has_written_since() -> None:
    found = judged(SAMPLE | {b"\xff\x00": b"binary"}, {}, frozenset({b"a"}))
    assert found == QueryCheck(store="s", sampled=4, equal=0, changed=1, unreadable=0, different=("b", "c", "0xff00"))


def test_a_store_that_was_emptied_since_may_answer_with_nothing() -> None:
    found = judged(SAMPLE, {}, frozenset(SAMPLE))
    assert (found.equal, found.changed, found.unreadable, found.different) == (0, 3, 0, ())


@given(
    st.dictionaries(st.binary(max_size=4), st.binary(max_size=4), max_size=15),
    st.dictionaries(st.text("abc", max_size=2), st.text("abc", max_size=2)),
    st.frozensets(st.binary(max_size=4)),
)
def test_every_key_is_counted_once(sample: dict[bytes, bytes], answers: dict[str, object], changed: frozenset[bytes]) -> None:
    found = judged(sample, answers, changed)
    assert found.sampled == found.equal + found.changed + found.unreadable + len(found.different) == len(sample)


def test_deleted_keys_that_are_not_there_prove_nothing_alone() -> None:
    deleted: dict[bytes, bytes | None] = {b"x": None, b"y": None}
    same: dict[bytes, bool | None] = dict.fromkeys((*deleted, b"a"), True)
    alone = judge_keys("s", deleted, same, ())
    assert (alone.sampled, alone.equal, alone.unreadable) == (2, 0, 2), "an empty store lacks them too"
    assert judge_keys("s", deleted | {b"a": b"1"}, same, ()).equal == 3
    assert judge_keys("s", deleted | {b"a": b"1"}, same, {b"a"}).equal == 0, "what was written again shows nothing of them"
    assert judge_keys("s", deleted, same | {b"x": False}, ()).different == ("x",)


def test_single_answers_are_counted_like_those_of_a_whole_store() -> None:
    same: dict[bytes, bool | None] = dict.fromkeys(SAMPLE, True)
    assert judge_keys("s", SAMPLE, same, ()) == judged(SAMPLE, ANSWERS)
    assert judge_keys("s", SAMPLE, same | {b"a": False}, ()) == judged(SAMPLE, ANSWERS | {"a": {"n": 2}})
    assert judge_keys("s", SAMPLE, same | {b"a": False}, {b"a"}) == judged(SAMPLE, ANSWERS, frozenset({b"a"}))


def test_a_key_that_was_not_asked_for_is_not_readable_and_bytes_are_named_in_hex() -> None:
    found = judge_keys("s", {b"a": b"1", b"b": None, b"\xff": b"x"}, {b"a": None, b"\xff": False}, ())
    assert (found.equal, found.unreadable, found.different) == (0, 2, ("0xff",))


@given(st.dictionaries(st.binary(max_size=3), st.none() | st.binary(max_size=2), max_size=12), st.integers(1, 15))
def test_the_newest_are_chosen_and_those_with_a_value_first(newest: dict[bytes, bytes | None], most: int) -> None:
    sample = chosen(newest, most)
    assert len(sample) == min(most, len(newest))
    assert sample == {key: newest[key] for key in sample}
    left_out = [newest[key] is not None for key in newest if key not in sample]
    assert not any(left_out) or all(value is not None for value in sample.values())
    live = [key for key in newest if newest[key] is not None]
    assert [key for key in live if key in sample] == live[max(0, len(live) - most) :]
