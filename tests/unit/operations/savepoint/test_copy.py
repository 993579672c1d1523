"""What a savepoint shares with the one before it and what it copies; and what a job brought back is what was planned, to the offset, or it is not used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Damaged, StateDamaged
from streams_recovery.core.jobs.spec import RangeCopied, RangeLost, RangeToCopy
from streams_recovery.core.kafka_types import (
    ClaimedTopic,
    Consistency,
    Evidence,
    Guarantee,
    QuiesceMode,
    TopicDescription,
    TopicPartition,
    TopicRole,
)
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.repository.manifest import CopiedRange, Manifest
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.savepoint import warnings
from streams_recovery.core.savepoint.chain import ChainPolicy
from streams_recovery.core.savepoint.damage import ChangedState, Damage, DamageKind
from streams_recovery.core.savepoint.request import SavepointRequest
from streams_recovery.operations.savepoint.begin import grown, other_topics, truncated
from streams_recovery.operations.savepoint.copy import _check_stored, check_against_plan, copy_plan
from streams_recovery.operations.savepoint.damage import with_damage
from streams_recovery.operations.savepoint.publish import assemble
from streams_recovery.operations.savepoint.values import Copied, CopyPlan, CutDraft, DraftTopic, Ticket
from tests.support.examples.savepoints import DAY, cut, image, manifest_of, segment, topic
from tests.support.repository.golden import SECOND, OpenGolden

STATE, INPUT = TopicPartition("state", 0), TopicPartition("in", 0)


def wanted(tp: TopicPartition, start: int, end: int) -> RangeToCopy:
    return RangeToCopy(tp=tp, start=start, end=end, size_hint=1, may_lose=tp is INPUT)


def copied(tp: TopicPartition, start: int, end: int, log_start: int = 0) -> RangeCopied:
    piece = CopiedRange(start=start, end=end, file=None)
    return RangeCopied(tp=tp, copied=piece, fetched=0, log_start_after=log_start, worker="w")


def lost(tp: TopicPartition, start: int, end: int) -> RangeLost:
    return RangeLost(tp=tp, start=start, end=end)


PLANNED = (wanted(STATE, 0, 5), wanted(STATE, 5, 10), wanted(INPUT, 2, 9))
WHOLE = (copied(STATE, 0, 5), copied(STATE, 5, 10), copied(INPUT, 2, 9))


@pytest.mark.parametrize(
    ("pieces", "holes"),
    [
        (WHOLE, ()),
        (WHOLE[::-1], ()),
        (WHOLE[:2], (lost(INPUT, 2, 9),)),
        ((*WHOLE[:2], copied(INPUT, 2, 4), copied(INPUT, 6, 9, log_start=6)), (lost(INPUT, 4, 6),)),
        ((*WHOLE[:2], copied(INPUT, 2, 9, log_start=5)), ()),  # deleted after it was read
    ],
)
def test_what_was_planned_is_taken(pieces: tuple[RangeCopied, ...], holes: tuple[RangeLost, ...]) -> None:
    check_against_plan(PLANNED, pieces, holes)


@pytest.mark.parametrize(
    ("pieces", "holes", "named"),
    [
        (WHOLE[:2], (), "'in'"),
        (WHOLE[1:], (), "'state'"),
        ((*WHOLE, WHOLE[0]), (), "'state'"),
        ((*WHOLE, copied(TopicPartition("other", 0), 0, 1)), (), "'other'"),
        ((copied(STATE, 0, 4), *WHOLE[1:]), (), "'state'"),
        ((copied(STATE, 0, 3), copied(STATE, 3, 5), *WHOLE[1:]), (), "'state'"),
        ((copied(STATE, 0, 3), *WHOLE[1:]), (lost(STATE, 3, 5),), "'state'"),
        (WHOLE[1:], (lost(STATE, 0, 5),), "'state'"),
        ((*WHOLE[:2], copied(INPUT, 2, 5)), (lost(INPUT, 6, 9),), "'in'"),
        ((*WHOLE[:2], copied(INPUT, 2, 6)), (lost(INPUT, 5, 9),), "'in'"),
        ((copied(STATE, 0, 5, log_start=1), *WHOLE[1:]), (), "state-0 starts at 1"),
    ],
)
def test_anything_else_is_damaged(pieces: tuple[RangeCopied, ...], holes: tuple[RangeLost, ...], named: str) -> None:
    with pytest.raises(Damaged, match=named):
        check_against_plan(PLANNED, pieces, holes)


@given(bounds=st.lists(st.integers(2, 9), unique=True, max_size=5).map(sorted), gone=st.lists(st.booleans(), min_size=6, max_size=6))
def test_pieces_and_holes_of_an_input_are_the_range_however_it_was_cut(bounds: list[int], gone: list[bool]) -> None:
    edges = sorted({2, 9, *bounds})
    tiles = list(zip(edges, edges[1:], gone, strict=False))
    pieces = tuple(copied(INPUT, start, end) for start, end, missing in tiles if not missing)
    holes = tuple(lost(INPUT, start, end) for start, end, missing in tiles if missing)
    check_against_plan(PLANNED[2:], pieces, holes)
    if pieces:
        with pytest.raises(Damaged):
            check_against_plan(PLANNED[2:], pieces[1:], holes)


def test_a_file_that_is_not_there_is_damage_and_the_next_savepoint_copies_it(golden: OpenGolden) -> None:
    recovery = golden("missing-segment")
    (topic,) = (topic for topic in recovery.savepoints.read(SECOND).topics if topic.name == "golden-totals-changelog")
    files = [piece.file for image in topic.partitions for piece in image.ranges if piece.file is not None]
    with pytest.raises(Damaged) as caught:
        _check_stored(recovery, CopyPlan(parent_id=None, partitions=(), begun_anew=()), files)
    assert str(caught.value.facts["key"]).startswith("golden/segments/")
    assert caught.value.commands == ("streams-recovery backup golden",)


TOPIC = DraftTopic(
    name="state",
    role=TopicRole.CHANGELOG,
    topic_id="a",
    replication_factor=1,
    config={},
    in_force={},
    store=None,
    archived=True,
    evidence=Evidence.STORE,
    partitions=(cut(end=10, epoch=2, topic="state"),),
)
SAME = TopicDescription(name="state", topic_id="a", partitions=1, replication_factor=1, config={}, leader_epochs=(2,))


@pytest.mark.fault("F21")
def test_another_topic_under_the_same_name_is_seen() -> None:
    assert other_topics([TOPIC], {"state": SAME}) == []
    assert other_topics([TOPIC], {}) == ["topic state (id a) was deleted"]
    assert other_topics([TOPIC], {"state": replace(SAME, topic_id="b")}) == ["topic state was created again: topic id a became b"]


def test_partitions_that_came_later_are_told() -> None:
    assert grown([TOPIC], {"state": SAME}) == ()
    (told,) = grown([TOPIC], {"state": replace(SAME, partitions=2)})
    assert "it has 2, 1 are in this savepoint" in told


@given(end=st.none() | st.integers(0, 30))
def test_a_log_that_was_cut_back_below_the_cut_is_seen(end: int | None) -> None:
    found = truncated([TOPIC], {TopicPartition("state", 0): end})
    assert bool(found) == (end is not None and end < 10)


POLICY = ChainPolicy(max_savepoints=100, max_age_days=100)
PROOF = manifest_of().proof
COMPACT = {"cleanup.policy": "compact", "delete.retention.ms": str(DAY)}


def drafted(*topics: DraftTopic, at: int = 1_000) -> CutDraft:
    return CutDraft(
        captured_at=at,
        cluster_id="c",
        group_type="classic",
        consistency=Consistency.EXACT,
        proof=PROOF,
        topics=topics,
        claimed=(),
        tails=(),
        assumed=(),
    )


def draft_topic(role: TopicRole, *, name: str = "t", end: int = 20) -> DraftTopic:
    return DraftTopic(
        name=name,
        role=role,
        topic_id="id-1",
        replication_factor=1,
        config={},
        in_force={},
        store=None,
        archived=True,
        evidence=Evidence.STORE,
        partitions=(cut(end=end, topic=name),),
    )


def planned(role: TopicRole, settings: Mapping[str, str], *, at: int, end: int = 20) -> CopyPlan:
    """The copy after a savepoint at 0 that has the log up to 10."""
    parent = manifest_of(replace(topic((image((segment(0, 10, [1, 9]),)),), role=role), config={}), captured_at=0)
    return copy_plan(drafted(draft_topic(role, end=end), at=at), parent, POLICY, {}, {"t": settings})


@pytest.mark.fault("F27")
@pytest.mark.parametrize("role", [TopicRole.CHANGELOG, TopicRole.INPUT, TopicRole.OUTPUT, TopicRole.GLOBAL])
def test_how_long_deletions_are_remembered_is_what_is_in_force(role: TopicRole) -> None:
    """The topic has no override: only the broker knows."""
    shared, anew = planned(role, COMPACT, at=5_000), planned(role, COMPACT | {"delete.retention.ms": "5000"}, at=5_000)
    assert [(piece.shares, piece.full_because) for piece in shared.partitions] == [(True, None)]
    [piece] = anew.partitions
    assert (piece.shares, anew.parent_id) == (False, None)
    assert piece.full_because == "tombstones may be gone: 5000 ms since the last savepoint, delete.retention.ms is 5000"
    assert piece.missing is not None
    assert (piece.missing.start, piece.missing.end) == (0, 20)


def test_that_the_archive_of_an_input_begins_anew_is_told() -> None:
    assert planned(TopicRole.INPUT, COMPACT, at=1_000).begun_anew == ()
    (forgotten,) = planned(TopicRole.INPUT, COMPACT, at=DAY).begun_anew
    assert forgotten.startswith("the archive of t-0 begins anew (tombstones may be gone:")
    (cut_back,) = planned(TopicRole.OUTPUT, {"cleanup.policy": "delete"}, at=1_000, end=5).begun_anew
    assert "it was truncated" in cut_back
    assert planned(TopicRole.CHANGELOG, COMPACT, at=DAY).begun_anew == (), "of a changelog only the state counts"


LOST = Damage(kind=DamageKind.RECREATED, topic="t", topic_id="id-2", problem="topic t was created again")
NOTHING = CopyPlan(parent_id=None, partitions=(), begun_anew=())


def ticket(changed_state: ChangedState = ChangedState.REFUSE, *, safety: bool = False) -> Ticket:
    request = SavepointRequest(run_id="r", requested_by="me", reason="", mode=None, changed_state=changed_state, confirm="orders")
    return Ticket(
        application_id="orders",
        savepoint_id="20261121T012345Z-0123456789",
        request=request,
        mode=QuiesceMode.STOP,
        fallback=None,
        lock=LockTicket(owner="o", number=1),
        mark=1,
        started_at=0,
        running=(),
        safety=safety,
        expected=(),
    )


def published(held: Ticket, plan: CopyPlan, consistency: Consistency = Consistency.EXACT) -> Manifest:
    claimed = (ClaimedTopic(topic="orders-eu-t-changelog", group="orders-eu"),)
    draft = replace(drafted(), consistency=consistency, claimed=claimed)
    return assemble(
        held, draft, plan, Copied(planned=ArtifactRef.of("k", b""), ranges=(), lost=(), noticed=()), None, Guarantee.EXACTLY_ONCE_V2
    )


def test_a_cut_of_damaged_state_is_refused_or_labelled_however_exact_it_is() -> None:
    with pytest.raises(StateDamaged, match="topic t was created again"):
        with_damage(NOTHING, ticket(), (LOST,))
    for label in (Consistency.EXACT, Consistency.AHEAD):
        for held in (ticket(ChangedState.DAMAGED), ticket(safety=True)):
            damaged = published(held, with_damage(NOTHING, held, (LOST,)), label)
            assert (damaged.consistency, damaged.proof.reasons) == (Consistency.DAMAGED, (LOST.problem,))
            (told, *_) = warnings.of_savepoint(damaged, None)
            assert told.startswith("its state is damaged (topic t was created again)")
        whole = ticket(ChangedState.DAMAGED)
        assert published(whole, with_damage(NOTHING, whole, ()), label).consistency is label, "allowed, and nothing is"


def test_a_change_that_was_intended_is_written_down_and_labels_nothing() -> None:
    held = ticket(ChangedState.INTENDED)
    made = published(held, with_damage(NOTHING, held, (LOST,)))
    assert (made.consistency, made.proof.reasons, made.provenance.intended) == (Consistency.EXACT, (), (LOST.problem,))
    assert "topic t was created again: declared as intended by me" in warnings.of_savepoint(made, None)


def test_topics_that_another_name_takes_are_in_the_manifest() -> None:
    made = published(ticket(), NOTHING)
    assert [(one.topic, one.group) for one in made.claimed] == [("orders-eu-t-changelog", "orders-eu")]
    assert any(
        "orders-eu-t-changelog is not in this savepoint: it is assigned to orders-eu" in told for told in warnings.of_savepoint(made, None)
    )


@pytest.mark.fault("F36")
@pytest.mark.parametrize(("start", "end"), [(4, 20), (10, 20), (10, 10), (11, 20)])
def test_records_that_were_deleted_from_a_changelog_are_not_inherited(start: int, end: int) -> None:
    """That they are gone may have been said to be intended: what is there now is the state then."""
    now = replace(draft_topic(TopicRole.CHANGELOG), partitions=(cut(start=start, end=end),))
    parent = manifest_of(topic((image((segment(0, 10, [1, 9]),)),)))
    [piece] = copy_plan(drafted(now), parent, POLICY, {}, {"t": COMPACT}).partitions
    assert (piece.shares, piece.missing and (piece.missing.start, piece.missing.end)) == (False, (start, end) if start < end else None)
    assert f"the log starts at {start}" in str(piece.full_because)


@pytest.mark.parametrize(
    ("then", "here"), [("compact,delete", "compact"), ("compact", "compact,delete"), ("compact,delete", "compact,delete")]
)
def test_of_a_windowed_store_s_changelog_old_records_may_go(then: str, here: str) -> None:
    now = replace(draft_topic(TopicRole.CHANGELOG), partitions=(cut(start=4, end=20),))
    parent = manifest_of(replace(topic((image((segment(0, 10, [1, 9]),)),)), config=COMPACT | {"cleanup.policy": then}))
    [piece] = copy_plan(drafted(now), parent, POLICY, {}, {"t": COMPACT | {"cleanup.policy": here}}).partitions
    assert (piece.shares, piece.full_because) == (True, None)


def test_that_the_archive_of_an_input_begins_anew_is_told_when_the_newest_savepoint_is_damaged() -> None:
    last = manifest_of(topic((image((segment(0, 10, [1, 9]),)),), role=TopicRole.INPUT))
    begun = copy_plan(drafted(draft_topic(TopicRole.INPUT)), None, POLICY, {}, {"t": COMPACT}, last=last)
    (told,) = begun.begun_anew
    assert told == (
        "the archive of t-0 begins anew (the newest savepoint is not whole, or cannot be read or decrypted): what it had before is in earlier savepoints only"
    )
    elsewhere = replace(last, cluster_id="other")
    assert copy_plan(drafted(draft_topic(TopicRole.INPUT)), None, POLICY, {}, {"t": COMPACT}, last=elsewhere).begun_anew == ()
