"""What a savepoint shares with the one before it and what it copies, topic by topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from streams_recovery.core.chain import ChainPolicy
from streams_recovery.core.model import Consistency, TopicRole
from streams_recovery.savepoints.copy import copy_plan
from streams_recovery.savepoints.values import CopyPlan, CutDraft, DraftTopic
from tests.unit.core.values import DAY, cut, image, manifest_of, segment, topic

POLICY = ChainPolicy(max_savepoints=100, max_age_days=100, max_records=1_000)
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
        tails=(),
    )


def draft_topic(role: TopicRole, *, name: str = "t", end: int = 20) -> DraftTopic:
    return DraftTopic(
        name=name,
        role=role,
        topic_id="id-1",
        replication_factor=1,
        config={},
        store=None,
        archived=True,
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
    assert [(piece.inherited != (), piece.full_because) for piece in shared.partitions] == [(True, None)]
    [piece] = anew.partitions
    assert (piece.inherited, anew.parent_id) == ((), None)
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
