"""Records of outputs that the state of a savepoint has not caused: listed, left out of a load, and told apart in comparisons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.jobs.spec import OffsetSpan
from streams_recovery.core.kafka_types import Consistency, Guarantee, QuiesceMode, TopicPartition, TopicRole
from streams_recovery.core.named_transactions.proof import Excluded, NamedLogCut, NamedProof
from streams_recovery.core.named_transactions.readings import Name
from streams_recovery.core.outputs.comparison import OutputRange
from streams_recovery.core.repository.manifest import Gap, Manifest, TopicImage
from streams_recovery.core.restore.outputs_behind import StateEnd, in_state, outputs_behind
from streams_recovery.core.restore.single_topics import ReadOn, WantedTopics
from streams_recovery.core.restore.topic_settings import TargetSettings
from streams_recovery.operations.outputs.ranges import _behind_state
from streams_recovery.operations.restore.placing import RestoreSource, partition_load
from streams_recovery.operations.restore.topics_plan import TopicsSource, _step, _Target
from streams_recovery.operations.savepoint.publish import counted
from tests.support.examples.savepoints import image, manifest_of, segment, topic

HERE = TopicPartition("out-here", 0)
IMAGE = image((segment(0, 20, list(range(20))),), end=20)
OUTPUT = topic((IMAGE,), name="out", role=TopicRole.OUTPUT)


def left_out(first: int, last: int, *, producer_id: int = 7, aborted: bool = False) -> Excluded:
    return Excluded(producer_id=producer_id, epoch=12, first=first, last=last, records=last - first + 1, aborted=aborted)


def named(*excluded: Excluded, logs: bool = True) -> Manifest:
    log = NamedLogCut(start=5, end=20, records=10, excluded=excluded)
    names = NamedProof(
        group=TopicPartition("__consumer_offsets", 3),
        group_end=9,
        last=(Name(7, 11), Name(8, 11)),
        taken_back=(),
        logs={TopicPartition("out", 0): log} if logs else {},
    )
    found = replace(manifest_of(OUTPUT), consistency=Consistency.EXACT, guarantee=Guarantee.EXACTLY_ONCE_V2)
    return replace(found, format_version=9, proof=replace(found.proof, mode=QuiesceMode.LIVE, names=names))


def spans(*pairs: tuple[int, int]) -> tuple[OffsetSpan, ...]:
    return tuple(OffsetSpan(first=first, last=last) for first, last in pairs)


@pytest.mark.parametrize(
    ("manifest", "end", "found"),
    [
        (named(), 20, ()),
        (named(), 23, spans((20, 22))),
        (named(left_out(6, 7)), 20, spans((6, 7))),
        (named(left_out(6, 7), left_out(8, 9, producer_id=8), left_out(12, 12)), 25, spans((6, 9), (12, 12), (20, 24))),
        (named(left_out(18, 19)), 25, spans((18, 24))),
        (named(left_out(6, 7, aborted=True)), 20, ()),
    ],
)
def test_what_is_not_of_the_state_is_listed_by_offsets(manifest: Manifest, end: int, found: tuple[OffsetSpan, ...]) -> None:
    behind = outputs_behind(manifest, {HERE.topic: OUTPUT}, {HERE: end})
    assert [one.spans for one in behind] == ([found] if found else [])
    for one in behind:
        assert (one.tp, one.exact, one.offsets) == (HERE, True, sum(span.last - span.first + 1 for span in found))
        assert (one.facts.first, one.facts.last, one.facts.offsets) == (found[0].first, found[-1].last, one.offsets)


def test_only_outputs_are_listed_and_only_where_they_are() -> None:
    assert outputs_behind(named(), {HERE.topic: replace(OUTPUT, role=TopicRole.INPUT)}, {HERE: 30}) == ()
    assert outputs_behind(named(), {HERE.topic: OUTPUT}, {}) == ()


@pytest.mark.parametrize(
    ("changed", "exact"),
    [
        ({}, True),
        ({"guarantee": Guarantee.AT_LEAST_ONCE}, False),
        ({"consistency": Consistency.AHEAD}, False),
    ],
)
def test_of_a_savepoint_that_was_held_it_is_what_came_behind_its_end(changed: dict[str, object], exact: bool) -> None:
    held = named(logs=False)
    held = replace(held, format_version=8, proof=replace(held.proof, mode=QuiesceMode.PAUSE, names=None), **changed)  # type: ignore[arg-type]
    (found,) = outputs_behind(held, {HERE.topic: OUTPUT}, {HERE: 22})
    assert (found.spans, found.exact) == (spans((20, 21)), exact)


def test_of_one_whose_outputs_were_read_while_it_worked_there_may_be_more() -> None:
    (found,) = outputs_behind(named(logs=False), {HERE.topic: OUTPUT}, {HERE: 22})
    assert (found.spans, found.exact) == (spans((20, 21)), False)
    assert StateEnd.of(named(logs=False), "out", IMAGE).named is False


def test_an_archived_output_is_loaded_without_what_is_not_of_the_state() -> None:
    cut = in_state(named(left_out(6, 7), left_out(12, 12), left_out(14, 15, aborted=True)), OUTPUT, IMAGE)
    assert cut is not None
    assert (cut.rows, cut.left_out, cut.first_later) == (17, spans((6, 7), (12, 12)), None)
    for manifest, output in (
        (named(), OUTPUT),
        (named(left_out(6, 7, aborted=True)), OUTPUT),
        (named(left_out(6, 7), logs=False), OUTPUT),
        (named(left_out(6, 7)), replace(OUTPUT, role=TopicRole.CHANGELOG)),
        (named(left_out(6, 7)), replace(OUTPUT, partitions=(image((), end=20),))),
    ):
        assert in_state(manifest, output, output.partitions[0]) is None


@pytest.mark.parametrize(
    ("with_state", "rows", "out"),
    [(True, 17, spans((6, 7), (12, 12))), (False, 20, ())],
    ids=["the state comes back too", "the state stays"],
)
def test_only_with_its_state_an_output_is_loaded_without_what_is_written_again(
    with_state: bool, rows: int, out: tuple[OffsetSpan, ...]
) -> None:
    source = RestoreSource(manifest=named(left_out(6, 7), left_out(12, 12)), with_state=with_state)
    load = partition_load(OUTPUT, IMAGE, source)
    assert (load.rows, () if load.cut is None else load.cut.left_out) == (rows, out)


@pytest.mark.parametrize("new_name", ["", "copy"])
def test_a_single_output_comes_back_with_all_of_its_records(new_name: str) -> None:
    """The state is further than the savepoint: nobody writes the others again."""
    manifest = named(left_out(6, 7))
    wanted = WantedTopics(topics=("out",), new_name=new_name)
    source = TopicsSource(manifest=manifest, images=(OUTPUT,), wanted=wanted, as_of=None, cuts={}, read_on=ReadOn.PROVEN)
    step = _step(
        _Target(image=OUTPUT, name=new_name or "out", existing=None, begins={}),
        source,
        ApplicationKind.KAFKA_STREAMS.dialect,
        TargetSettings(),
    )
    assert [(part.cut, part.rows) for part in step.partitions] == [(None, 20)]


def test_a_comparison_with_a_clone_begins_at_the_same_records() -> None:
    added = TopicPartition("out", 1)
    real = TopicPartition("out", 0)
    found = _behind_state(named(left_out(6, 7), left_out(12, 12)), {real: 22, added: 3}, {real: 25, added: 4})
    assert [(one.tp, one.start, one.end) for one in found] == [(real, 6, 8), (real, 12, 13), (real, 20, 25), (added, 0, 4)]
    assert [one.settled for one in found] == [22, 22, 22, 3]
    assert _behind_state(named(), {real: 20}, {real: 18}) == [OutputRange(tp=real, start=20, settled=20, end=18)], "it was made again"


@pytest.mark.parametrize(
    ("output", "known"),
    [
        (OUTPUT, True),
        (replace(OUTPUT, partitions=(replace(IMAGE, gaps=(Gap(start=0, end=5, reason="r"),)),)), True),
        (replace(OUTPUT, partitions=(replace(IMAGE, gaps=(Gap(start=0, end=6, reason="r"),)),)), False),
        (replace(OUTPUT, partitions=(image((segment(6, 20, [6]),), end=20),)), False),
        (replace(OUTPUT, archived=False, partitions=(image((), end=20),)), True),
        (replace(OUTPUT, role=TopicRole.REPARTITION, partitions=(image((segment(6, 20, [6]),), end=20),)), True),
    ],
)
def test_an_output_of_which_records_were_lost_has_no_number_to_leave_out(output: TopicImage, known: bool) -> None:
    proof = counted(named(left_out(6, 7)).proof, [output])
    assert proof.names is not None
    assert list(proof.names.logs) == ([TopicPartition("out", 0)] if known else [])
    held = replace(proof, names=None)
    assert counted(held, [output]) == held
