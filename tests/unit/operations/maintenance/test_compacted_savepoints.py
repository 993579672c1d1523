"""Compacted, merged and minimal savepoints: checked for what they are, and in the place of another only where they have what it has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.errors import Damaged, NotFound, Refused
from streams_recovery.core.kafka_types import Consistency, Profile, TopicRole
from streams_recovery.core.repository.check import Cause
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.operations import maintenance
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies.from_savepoint import choose
from tests.support.applications.small import asked
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
    assert next(recovery.savepoints.newest_first()) == damaged
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


# Minimal savepoints

NOW = T0 + 4 * 3_600_000


def without_state(full: Manifest, number: int) -> Manifest:
    """The same application, saved later and without its internal topics' records."""
    topics = tuple(
        replace(topic, archived=False, partitions=tuple(replace(image, ranges=(), gaps=()) for image in topic.partitions))
        for topic in full.topics
    )
    taken = full.captured_at + number * 3_600_000
    savepoint_id = f"20261121T{number + 1:02}0000Z-00000000{number:02}"
    return replace(full, savepoint_id=savepoint_id, captured_at=taken, topics=topics, parent_id=None)


def with_minimal(recovery: RecoveryContext, count: int = 1) -> list[str]:
    full = recovery.savepoints.read(SECOND)
    minimal = [without_state(full, number + 1) for number in range(count)]
    for one in minimal:
        recovery.savepoints.publish(one)
    return [one.savepoint_id for one in minimal]


def test_the_profile_is_what_the_topics_show(golden: OpenGolden) -> None:
    full = golden("good").savepoints.read(SECOND)
    minimal = without_state(full, 1)
    assert (full.profile, minimal.profile) == (Profile.FULL, Profile.MINIMAL)
    one_left_out = replace(full, topics=(full.topics[0], replace(full.topics[1], archived=False), *full.topics[2:]))
    assert one_left_out.profile is Profile.MINIMAL
    stateless = replace(full, topics=tuple(topic for topic in full.topics if topic.role is TopicRole.INPUT))
    assert stateless.profile is Profile.MINIMAL
    assert replace(stateless, consistency=Consistency.DAMAGED).profile is Profile.FULL, "it was to save what was there"


@pytest.mark.parametrize("level", ["structure", "full", "sample=10%"])
def test_where_all_are_minimal_their_manifests_are_all_there_is_to_check(golden: OpenGolden, level: str) -> None:
    recovery = golden("good")
    with_minimal(recovery, 2)
    assert checked(recovery, level).good
    recovery.repository.delete([recovery.layout.manifest(FIRST), recovery.layout.manifest(SECOND)])
    report = checked(recovery, level)
    assert (report.savepoints, report.minimal, report.files, report.files_read) == (2, 2, 0, 0)
    assert report.good
    recovery.savepoints.publish(_without_files(without_state(recovery.savepoints.latest() or pytest.fail("none"), 5)))
    report = checked(recovery, level)
    assert report.causes == (Cause.NOTHING_CHECKED,), "state without a file is suspicious"


def _without_files(minimal: Manifest) -> Manifest:
    """One that claims to have state, of logs that were all empty."""
    topics = tuple(
        replace(
            topic,
            archived=True,
            partitions=tuple(replace(image, log_start=0, last_stable=0, end=0, committed=None) for image in topic.partitions),
        )
        for topic in minimal.topics
        if topic.role.internal
    )
    return replace(minimal, topics=topics)


def test_a_damaged_minimal_one_is_damage(golden: OpenGolden) -> None:
    recovery = golden("good")
    (minimal,) = with_minimal(recovery)
    (Path(str(recovery.config.storage.path)) / recovery.layout.manifest(minimal)).write_bytes(b"torn")
    assert checked(recovery, "structure", minimal).causes == (Cause.DAMAGED_MANIFEST, Cause.NOTHING_CHECKED)


def test_minimal_ones_never_push_out_the_last_with_state(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    minimal = with_minimal(recovery, 3)
    plan = maintenance.plan_expiry(recovery)
    assert [decision.savepoint_id for decision in plan.keep] == [minimal[-1], SECOND]
    assert {decision.savepoint_id for decision in plan.expire} == {FIRST, *minimal[:2]}


def test_a_restore_takes_the_newest_with_state_and_says_what_to_do_without_any(golden: OpenGolden) -> None:
    recovery = golden("good")
    (minimal,) = with_minimal(recovery)
    assert choose(recovery, asked(recovery, savepoint="latest")).manifest.savepoint_id == SECOND
    with pytest.raises(Refused, match="is minimal") as caught:
        choose(recovery, asked(recovery, savepoint=minimal))
    assert caught.value.facts == {"savepoint": minimal}
    assert caught.value.commands == (
        "streams-recovery savepoints list golden",
        f"streams-recovery rebuild golden --inputs-from {minimal} --plan",
    )
    recovery.repository.delete([recovery.layout.manifest(FIRST), recovery.layout.manifest(SECOND)])
    with pytest.raises(Refused, match="is minimal") as caught:
        choose(recovery, asked(recovery, savepoint="latest"))
    assert caught.value.facts == {"savepoint": minimal}
    recovery.repository.delete([recovery.layout.manifest(minimal)])
    with pytest.raises(NotFound, match="has no exact savepoint"):
        choose(recovery, asked(recovery, savepoint="latest"))
