"""A repository with a compacted savepoint, or a merged one: it stands for the one it was made from as long as it can."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import Consistency, Profile
from streams_recovery.operations import maintenance
from streams_recovery.operations.context import RecoveryContext
from tests.support.repository.golden import COMPACTED, FIRST, MERGED, SECOND, T0, OpenGolden, checked

SMALL = "golden/segments/golden-totals-changelog/0/00000000000000000000-00000000000000000054-golden.parquet"


def kept(recovery: RecoveryContext) -> set[str]:
    return {decision.savepoint_id for decision in maintenance.plan_expiry(recovery).keep}


def test_the_compacted_one_is_the_newest(golden: OpenGolden) -> None:
    recovery = golden("compacted")
    assert recovery.savepoints.ids() == [FIRST, SECOND, COMPACTED]
    newest = recovery.savepoints.latest(Consistency.EXACT)
    assert newest is not None
    assert (newest.savepoint_id, newest.replaces, newest.parent_id) == (COMPACTED, SECOND, SECOND)
    source = recovery.savepoints.read(SECOND)
    assert newest.records < source.records
    assert (newest.captured_at, newest.committed(), newest.proof) == (source.captured_at, source.committed(), source.proof)


def test_it_is_the_newest_wherever_its_id_sorts(golden: OpenGolden) -> None:
    recovery = golden("compacted")
    first = replace(recovery.savepoints.read(COMPACTED), savepoint_id="20261121T010000Z-0000000000")
    recovery.savepoints.publish(first)
    recovery.repository.delete([recovery.layout.manifest(COMPACTED)])
    assert recovery.savepoints.ids()[-1] == SECOND
    assert recovery.savepoints.latest() == first


def test_a_damaged_manifest_of_the_pair_does_not_hide_the_other(golden: OpenGolden) -> None:
    recovery = golden("compacted")
    for savepoint_id, left in ((SECOND, COMPACTED), (COMPACTED, None)):
        recovery.repository.delete([recovery.layout.manifest(savepoint_id)])
        recovery.repository.create(recovery.layout.manifest(savepoint_id), b"torn")
        if left is None:
            with pytest.raises(Damaged):
                recovery.savepoints.latest()
        else:
            found = recovery.savepoints.latest()
            assert found is not None
            assert found.savepoint_id == left


def test_one_of_damaged_state_is_never_the_newest(golden: OpenGolden) -> None:
    recovery = golden("good")
    newest = recovery.savepoints.read(SECOND)
    damaged = replace(newest, savepoint_id="20261121T020000Z-0000000004", consistency=Consistency.DAMAGED)
    recovery.savepoints.publish(damaged)
    for profile in (None, Profile.FULL):
        assert recovery.savepoints.latest(profile=profile) == newest
    assert recovery.savepoints.latest(Consistency.DAMAGED) is None, "such a one has to be named"
    assert recovery.savepoints.newest() == damaged
    assert kept(recovery) == {SECOND, damaged.savepoint_id}, "the rules keep what they kept before; this one is recent"


def test_only_a_whole_one_lets_its_source_expire(golden: OpenGolden) -> None:
    recovery = golden("compacted", now=T0 + 90 * 86_400_000)
    assert kept(recovery) == {COMPACTED}
    recovery.repository.delete([SMALL])
    assert kept(recovery) == {SECOND, COMPACTED}, "the damaged one stays to be looked at, and what it was made from counts again"


def test_files_that_both_need_outlive_the_source(golden: OpenGolden) -> None:
    month = 30 * 86_400_000
    first = golden("compacted", now=T0 + month)
    maintenance.expire(first, "first")
    later = golden("compacted", now=T0 + 10_000 * month)
    report = maintenance.expire(later, "second")
    assert report.files_removed > 0
    assert later.savepoints.ids() == [COMPACTED]
    sizes = {file.key: file.bytes for file in later.repository.listed(later.layout.segments)}
    assert later.savepoints.read(COMPACTED).whole(sizes)
    assert set(sizes) == {file.key for _, file in later.savepoints.read(COMPACTED).files()}


def test_a_merged_one_is_the_newest_and_lets_its_source_expire_as_long_as_it_is_whole(golden: OpenGolden) -> None:
    recovery = golden("merged", now=T0 + 90 * 86_400_000)
    newest, source = recovery.savepoints.latest(Consistency.EXACT), recovery.savepoints.read(SECOND)
    assert newest is not None
    assert (newest.savepoint_id, newest.replaces, newest.parent_id) == (MERGED, SECOND, SECOND)
    assert (newest.records, newest.file_count) == (source.records, source.file_count - 1)
    assert checked(recovery, "full").good
    assert kept(recovery) == {MERGED}
    recovery.repository.delete([SMALL.replace("000054-", "000055-")])
    assert kept(recovery) == {SECOND, MERGED}, "the damaged one stays to be looked at, and what it was made from counts again"
