"""What is proof enough that a restored partition is equal, and what asks for a comparison of its own.

Answers of an application are held against what can be read of a savepoint, and only against that. What an interrupted load may have left, judged by ids and
ends alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core.jobs.spec import KeysVerified, PartitionLoaded, PartitionRead, PartitionVerified, RestoreResult
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.restore.planned import PartitionLoad
from streams_recovery.core.restore.proofs import (
    NO_ROWS,
    LoadAction,
    LoadProgress,
    LogState,
    Need,
    Proof,
    QueryCheck,
    TopicState,
    chosen,
    judge,
    judge_keys,
    judged,
    needs,
    next_action,
    read_back,
    topic_state,
    with_empty,
)
from streams_recovery.segments.schema import RowDigest
from tests.support.examples.restore_plan import FILE

STATE, OTHER, BARE = TopicPartition("s-changelog", 0), TopicPartition("k-repartition", 0), TopicPartition("s-changelog", 1)
WORK = {
    tp: PartitionLoad(partition=tp.partition, files=SegmentFiles.of(() if tp is BARE else (replace(FILE, rows=5),)))
    for tp in (STATE, OTHER, BARE)
}
NOW = {tp: LogState(topic_id=f"id-{tp.topic}", start=0, end=0 if tp is BARE else 5) for tp in WORK}
KEYED = ("s-changelog",)


def both(tp: TopicPartition) -> PartitionVerified:
    return PartitionVerified(
        tp=tp,
        topic_id=NOW[tp].topic_id,
        start=0,
        end=5,
        archived_rows=5,
        loaded_rows=5,
        archived_digest="aa",
        loaded_digest="aa",
    )


LOADED = {tp: both(tp) for tp in (STATE, OTHER)}
FOUND = with_empty(LOADED, WORK, NOW)


def keys(tp: TopicPartition, different: int = 0, examples: tuple[str, ...] = ()) -> KeysVerified:
    return KeysVerified(tp=tp, keys_compared=3, keys_different=different, examples=examples)


def result(*tps: TopicPartition) -> RestoreResult:
    """What a job leaves that loaded and read back these partitions."""
    return RestoreResult(
        partitions=tuple(
            PartitionLoaded(
                tp=tp,
                rows=5,
                acknowledged_first=0,
                acknowledged_last=4,
                worker="w",
                archived_rows=5,
                digest="aa",
            )
            for tp in tps
        ),
        read=tuple(PartitionRead(tp=tp, topic_id=NOW[tp].topic_id, start=0, end=5, rows=5, digest="aa") for tp in tps),
        seconds=1,
    )


def test_no_rows_have_the_digest_that_tasks_give_them() -> None:
    assert RowDigest().hexdigest() == NO_ROWS


def test_both_sides_come_from_the_tasks_that_saw_them() -> None:
    assert read_back(result(STATE, OTHER)) == LOADED
    whole = result(STATE, OTHER)
    assert read_back(replace(whole, read=whole.read[1:])) == {OTHER: LOADED[OTHER]}
    assert read_back(replace(whole, partitions=whole.partitions[1:])) == {OTHER: LOADED[OTHER]}
    another = replace(whole.read[0], start=1, end=6, rows=4, digest="bb", topic_id="x")
    found = read_back(replace(whole, read=(another,)))[STATE]
    assert (found.start, found.end, found.loaded_rows, found.loaded_digest, found.topic_id) == (1, 6, 4, "bb", "x")
    assert (found.archived_rows, found.archived_digest) == (5, "aa")


def test_equal_rows_of_unchanged_logs_need_nothing_more() -> None:
    assert needs(WORK, FOUND, NOW, KEYED, requested=False) == {}
    judgement = judged(WORK, FOUND, (), NOW, KEYED, requested=False)
    assert judgement.problems == {}
    assert [(one.proof, one.rows, one.holds) for one in judgement.proofs] == [
        (Proof.ROWS, 5, True),
        (Proof.ROWS, 5, True),
        (Proof.EMPTY, 0, True),
    ]


CHANGES: dict[str, tuple[Callable[[PartitionVerified], PartitionVerified], Need]] = {
    "another digest": (lambda one: replace(one, loaded_digest="ab"), Need.DIFFERENT),
    "another digest of the archive": (lambda one: replace(one, archived_digest="ab"), Need.DIFFERENT),
    "fewer rows in the topic": (lambda one: replace(one, loaded_rows=4), Need.DIFFERENT),
    "fewer rows on both sides than planned": (lambda one: replace(one, archived_rows=4, loaded_rows=4), Need.DIFFERENT),
    "no rows on both sides": (lambda one: replace(one, archived_rows=0, loaded_rows=0), Need.DIFFERENT),
    "an end that moved": (lambda one: replace(one, end=4), Need.CHANGED),
    "a start that moved": (lambda one: replace(one, start=1), Need.CHANGED),
    "another topic of that name": (lambda one: replace(one, topic_id="another"), Need.CHANGED),
}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("tp", [STATE, OTHER])
def test_whatever_is_different_or_changed_is_compared_again_and_never_passes(how: str, tp: TopicPartition) -> None:
    change, need = CHANGES[how]
    found = FOUND | {tp: change(FOUND[tp])}
    assert needs(WORK, found, NOW, KEYED, requested=False) == {tp: need}
    assert set(judged(WORK, found, (), NOW, KEYED, requested=False).problems) == {tp}
    assert set(judged(WORK, found, (keys(tp),), NOW, KEYED, requested=False).problems) == {tp}, "equal keys do not make up for it"


def test_what_was_not_read_is_compared_and_a_log_that_should_be_empty_counts_only_if_it_is() -> None:
    for tp in WORK:
        less = {other: one for other, one in FOUND.items() if other != tp}
        assert needs(WORK, less, NOW, KEYED, requested=False) == {tp: Need.NOT_READ}
        assert judged(WORK, less, (), NOW, KEYED, requested=False).problems == {tp: "it was not read back"}
    filled = NOW | {BARE: replace(NOW[BARE], end=1)}
    assert needs(WORK, with_empty(LOADED, WORK, filled), filled, KEYED, requested=False) == {BARE: Need.NOT_READ}
    assert needs(WORK, {}, NOW, KEYED, requested=False) == dict.fromkeys(WORK, Need.NOT_READ)
    assert judged(WORK, {}, (), NOW, KEYED, requested=False).proofs == ()


def test_keys_are_compared_where_it_is_asked_for_or_the_savepoint_is_compacted() -> None:
    assert needs(WORK, FOUND, NOW, KEYED, requested=True) == {STATE: Need.KEYS}
    compacted = {tp: replace(load, compacted=True) for tp, load in WORK.items()}
    assert needs(compacted, FOUND, NOW, KEYED, requested=False) == {STATE: Need.KEYS}
    for work, requested in ((WORK, True), (compacted, False)):
        assert judged(work, FOUND, (), NOW, KEYED, requested=requested).problems == {STATE: "its keys were not compared"}
        [proof, *_] = judged(work, FOUND, (keys(STATE),), NOW, KEYED, requested=requested).proofs
        assert (proof.proof, proof.rows, proof.keys_compared) == (Proof.KEYS, 5, 3)


def test_keys_of_deleted_state_are_zero_and_its_rows_are_the_proof() -> None:
    [proof, *_] = judged(WORK, FOUND, (replace(keys(STATE), keys_compared=0),), NOW, KEYED, requested=True).proofs
    assert (proof.proof, proof.rows, proof.keys_compared, proof.holds) == (Proof.KEYS, 5, 0, True)


def test_a_difference_says_how_many_records_and_which_keys() -> None:
    other = FOUND | {STATE: replace(FOUND[STATE], loaded_digest="ab")}
    listed = judged(WORK, other, (keys(STATE, 2, ("6b31", "6b32")),), NOW, KEYED, requested=False).problems[STATE]
    assert listed == "5 records in the savepoint, 5 in the topic, not the same; 2 of 3 keys differ, such as 6b31, 6b32"
    same = judged(WORK, other, (keys(STATE),), NOW, KEYED, requested=False).problems[STATE]
    assert same.endswith("the newest records of all keys are the same")
    assert judged(WORK, FOUND, (keys(STATE, 1, ("6b31",)),), NOW, KEYED, requested=False).problems == {
        STATE: "1 of 3 keys differ, such as 6b31, though its records are the same"
    }


logs = st.builds(LogState, topic_id=st.sampled_from("ab"), start=st.integers(0, 2), end=st.integers(0, 6))
sides = st.builds(
    PartitionVerified,
    tp=st.just(STATE),
    topic_id=st.sampled_from("ab"),
    start=st.integers(0, 2),
    end=st.integers(0, 6),
    archived_rows=st.integers(0, 5),
    loaded_rows=st.integers(0, 5),
    archived_digest=st.sampled_from("xy"),
    loaded_digest=st.sampled_from("xy"),
)


@settings(deadline=None)
@given(st.none() | sides, logs, st.booleans())
def test_a_partition_either_has_a_proof_or_a_problem_and_what_needs_nothing_has_a_proof(
    found: PartitionVerified | None, now: LogState, requested: bool
) -> None:
    work, verified = {STATE: WORK[STATE]}, {} if found is None else {STATE: found}
    judgement = judged(work, verified, (), {STATE: now}, KEYED, requested=requested)
    assert len(judgement.proofs) + len(judgement.problems) == 1
    assert bool(judgement.problems) == bool(needs(work, verified, {STATE: now}, KEYED, requested=requested))
    for proof in judgement.proofs:
        assert (proof.holds, proof.rows) == (True, 5)


SAMPLE = {b"a": b'{"n":1}', b"b": b"two", b"c": b'{"n":3}'}
ANSWERS: dict[str, object] = {"a": {"n": 1}, "b": "two", "c": {"n": 3}, "d": "other"}


def compared(sample: dict[bytes, bytes], answers: dict[str, object], changed: frozenset[bytes] = frozenset()) -> QueryCheck:
    return judge("s", sample, answers, changed)


def test_equal_answers_are_counted() -> None:
    assert compared(SAMPLE, ANSWERS) == QueryCheck(store="s", sampled=3, equal=3, changed=0, unreadable=0, different=())


def test_another_value_and_a_missing_key_are_different() -> None:
    assert compared(SAMPLE, ANSWERS | {"a": {"n": 2}}).different == ("a",)
    assert compared(SAMPLE, {key: value for key, value in ANSWERS.items() if key != "c"}).different == ("c",)


def test_a_key_that_was_written_again_is_left_out() -> None:
    found = compared(SAMPLE, ANSWERS | {"a": {"n": 2}}, frozenset({b"a"}))
    assert (found.equal, found.changed, found.different) == (2, 1, ())


def test_keys_shown_in_another_way_prove_nothing() -> None:
    found = compared(SAMPLE, {f"key {key}": value for key, value in ANSWERS.items()})
    assert (found.equal, found.unreadable, found.different) == (0, 3, ())


def test_an_empty_answer_lacks_every_key_that_nobody_has_written_since() -> None:
    found = compared(SAMPLE | {b"\xff\x00": b"binary"}, {}, frozenset({b"a"}))
    assert found == QueryCheck(store="s", sampled=4, equal=0, changed=1, unreadable=0, different=("b", "c", "0xff00"))


def test_a_store_that_was_emptied_since_may_answer_with_nothing() -> None:
    found = compared(SAMPLE, {}, frozenset(SAMPLE))
    assert (found.equal, found.changed, found.unreadable, found.different) == (0, 3, 0, ())


@given(
    st.dictionaries(st.binary(max_size=4), st.binary(max_size=4), max_size=15),
    st.dictionaries(st.text("abc", max_size=2), st.text("abc", max_size=2)),
    st.frozensets(st.binary(max_size=4)),
)
def test_every_key_is_counted_once(sample: dict[bytes, bytes], answers: dict[str, object], changed: frozenset[bytes]) -> None:
    found = compared(sample, answers, changed)
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
    assert judge_keys("s", SAMPLE, same, ()) == compared(SAMPLE, ANSWERS)
    assert judge_keys("s", SAMPLE, same | {b"a": False}, ()) == compared(SAMPLE, ANSWERS | {"a": {"n": 2}})
    assert judge_keys("s", SAMPLE, same | {b"a": False}, {b"a"}) == compared(SAMPLE, ANSWERS, frozenset({b"a"}))


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


offsets = st.integers(0, 20)


@given(start=offsets, more=offsets, rows=offsets)
def test_only_a_log_from_0_on_with_no_more_than_its_rows_can_be_a_beginning(start: int, more: int, rows: int) -> None:
    standing = LoadProgress(tp=TopicPartition("t", 0), start=start, end=start + more, rows=rows)
    if start == 0 and more <= rows:
        assert standing.present == more
    else:
        assert standing.present is None


def test_a_topic_is_ours_by_its_id_and_a_stranger_s_records_are_never_ours() -> None:
    assert topic_state(None, ["a"], 0) is TopicState.MISSING
    assert topic_state("a", ["b", "a"], 7) is TopicState.OURS
    assert topic_state("c", ["b", "a"], 7) is TopicState.STRANGER_FULL
    assert topic_state("c", [], 0) is TopicState.STRANGER_EMPTY


@pytest.mark.fault("F20")
@given(kind=st.sampled_from(TopicState), records=offsets, differs=st.booleans(), others_write=st.booleans())
def test_records_that_somebody_else_may_have_written_are_never_deleted(
    kind: TopicState, records: int, differs: bool, others_write: bool
) -> None:
    what = next_action(kind, records=records, differs=differs, others_write=others_write)
    if kind is TopicState.STRANGER_FULL or (records and differs and others_write):
        assert what is LoadAction.REFUSE
    elif differs or kind is not TopicState.OURS:
        assert what is LoadAction.BEGIN_AGAIN
    else:
        assert what is LoadAction.GO_ON
