"""A savepoint that is compacted has to prove that it holds the same state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.compaction_proof import CompactedFrom, Compaction, CompactionProof
from streams_recovery.core.repository.manifest import CopiedRange, Manifest
from tests.support.examples.savepoints import image, manifest_of, segment, topic
from tests.support.repository.stored import stored

PROOF = CompactionProof(
    tp=TopicPartition("t", 0),
    rows_before=8,
    rows_after=2,
    keys=3,
    state_before=2,
    state_after=2,
    digest_before="d",
    digest_after="d",
)


def read(value: Manifest) -> Manifest:
    return stored(value)


def compacted(*proofs: CompactionProof, role: TopicRole = TopicRole.CHANGELOG) -> Manifest:
    """A savepoint whose only partition has two compacted ranges with two rows."""
    pieces = tuple(replace(piece, compacted=Compaction.LATEST_PER_KEY) for piece in (segment(0, 9, [3, 8]), segment(9, 10, [])))
    whole = manifest_of(topic((image(pieces),), role=role))
    source = CompactedFrom(savepoint_id="20261121T012345Z-0123456780", proofs=proofs)
    return replace(whole, provenance=replace(whole.provenance, compacted_from=source))


def test_a_proven_compaction_stands_for_its_source() -> None:
    value = compacted(PROOF)
    assert read(value) == value
    assert value.replaces == "20261121T012345Z-0123456780"
    assert manifest_of().replaces is None


@pytest.mark.parametrize(
    "proofs",
    [
        (),
        (replace(PROOF, digest_after="e"),),
        (replace(PROOF, state_after=1),),
        (replace(PROOF, keys=0),),
        (replace(PROOF, rows_before=0, keys=0, state_before=0, state_after=0),),
        (replace(PROOF, rows_after=3),),
        (replace(PROOF, tp=TopicPartition(PROOF.tp.topic, 1)),),
        (PROOF, PROOF),
    ],
)
def test_a_compaction_that_is_not_proven_is_no_savepoint(proofs: tuple[CompactionProof, ...]) -> None:
    with pytest.raises(Damaged, match="not proven"):
        read(compacted(*proofs))


@pytest.mark.parametrize(("rows", "keys", "holds"), [(8, 3, True), (8, 0, False), (0, 0, True)])
def test_a_proof_that_compared_nothing_holds_only_where_there_was_nothing(rows: int, keys: int, holds: bool) -> None:
    proof = replace(PROOF, rows_before=rows, keys=keys, state_before=0, state_after=0)
    assert proof.holds is holds
    other = replace(PROOF, tp=TopicPartition(PROOF.tp.topic, 1))
    assert CompactedFrom(savepoint_id="s", proofs=(proof, other)).proven is holds
    assert not CompactedFrom(savepoint_id="s", proofs=(replace(PROOF, rows_before=0, keys=0),)).proven


def test_rows_that_are_all_there_need_another_proof_than_compacted_ones() -> None:
    value = compacted(PROOF)
    (changelog,) = value.topics
    ranges = tuple(replace(piece, compacted=None) for piece in changelog.partitions[0].ranges)
    unmarked = replace(changelog, partitions=(replace(changelog.partitions[0], ranges=ranges),))
    with pytest.raises(Damaged, match="not proven"):
        read(replace(value, topics=(unmarked,)))


@pytest.mark.parametrize("role", [role for role in TopicRole if role is not TopicRole.CHANGELOG])
def test_nothing_but_a_changelog_can_be_compacted(role: TopicRole) -> None:
    with pytest.raises(Damaged, match="it is no changelog"):
        read(compacted(PROOF, role=role))


def test_a_compacted_range_without_a_row_is_a_range() -> None:
    empty = CopiedRange(start=0, end=10, file=None, compacted=Compaction.LATEST_PER_KEY)
    proof = replace(PROOF, rows_after=0, state_before=0, state_after=0)
    value = replace(manifest_of(topic((image((empty,)),))), provenance=compacted(proof).provenance)
    assert read(value) == value
