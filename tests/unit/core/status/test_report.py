"""Up to when input would be there is never later than what the archive promises behind the savepoint, and one that cannot be used promises nothing."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from streams_recovery.core import codec
from streams_recovery.core.archive.cuts import ArchivedCut
from streams_recovery.core.archive.log import Archive, ArchivedLog, ArchiveEvent, extended
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Gap, Manifest
from streams_recovery.core.status.report import ArchiveStatus, archive_status, recovery_point, unusable
from tests.support.examples.observed import MINUTE, NOW, summary
from tests.support.examples.savepoints import image, manifest_of, segment, topic

TP = TopicPartition("t", 0)
CAPTURED = NOW - 20 * MINUTE
SAFE = NOW - 9_000


def log(**changes: Any) -> ArchivedLog:
    """Behind the savepoint, which ends at 10."""
    behind = ArchivedLog(tp=TP, topic_id="id-1", start=10, end=20, leader_epoch=0, ranges=(segment(10, 20, [10, 19]),))
    return replace(behind, **changes)


def archive(*logs: ArchivedLog, **changes: Any) -> Archive:
    at_work = Archive(
        number=7, event=ArchiveEvent.COPIED, at=NOW - 5_000, safe_at=SAFE, cluster_id="c", recorded=7, recorded_safe_at=SAFE, waiting=3
    )
    return replace(at_work, logs=MappingProxyType({TP: logs}), **changes)


def savepoint(*, end: int = 10) -> Manifest:
    """As it is stored: read without its ranges."""
    held = manifest_of(topic((image((segment(0, end, [0]),), end=end),), role=TopicRole.INPUT), captured_at=CAPTURED)
    return codec.loads(Manifest, codec.dumps(held), where="the manifest")


def status_of(found: Archive, newest: Manifest) -> ArchiveStatus:
    return archive_status(found, newest, extended(newest, found, outline=True), NOW)


def point(status: ArchiveStatus | None, **changes: Any) -> int | None:
    return recovery_point(summary(CAPTURED, **changes), status)


def test_what_is_archived_behind_the_savepoint_counts() -> None:
    status = status_of(archive(log()), savepoint())
    assert (status.working, status.said_at, status.safe_at, status.waiting, status.files) == (True, NOW - 5_000, SAFE, 3, 1)
    assert point(status) == SAFE
    behind = extended(savepoint(), archive(log()), outline=True)
    assert behind is not None
    assert (behind.records, [part.end for part in behind.manifest.topics[0].partitions]) == (2, [20])
    assert point(None) == CAPTURED


@pytest.mark.fault("F94")
def test_an_archiver_of_another_cluster_than_the_newest_savepoint_is_not_at_work_for_it() -> None:
    status = status_of(archive(log(), cluster_id="old"), savepoint())
    assert (status.working, status.elsewhere) == (False, "old")
    assert archive_status(archive(log(), cluster_id="old"), None, None, NOW).working, "without a savepoint nothing says otherwise"


@pytest.mark.parametrize(
    ("found", "newest"),
    [
        (archive(log(), cluster_id="another"), savepoint()),
        (archive(log(), safe_at=None), savepoint()),
        (archive(log(), at=NOW + 30 * MINUTE, safe_at=NOW + 30 * MINUTE), savepoint()),
        (archive(log(topic_id="id-2")), savepoint()),
        (archive(log()), savepoint(end=9)),
    ],
    ids=["of another cluster", "of no moment", "of a moment that has not come", "of another topic", "behind another end"],
)
def test_what_does_not_go_on_behind_the_savepoint_promises_nothing(found: Archive, newest: Manifest) -> None:
    status = status_of(found, newest)
    assert status.safe_at is None
    assert point(status) == CAPTURED


def test_partitions_that_do_not_go_on_are_named_and_counted() -> None:
    status = status_of(archive(log(topic_id="id-2")), savepoint())
    assert (status.left, status.left_count) == (("t-0 was created again since the savepoint",), 1)


def test_a_savepoint_that_is_newer_than_the_archive_counts() -> None:
    assert point(status_of(archive(log(), safe_at=CAPTURED - 1), savepoint())) == CAPTURED


@pytest.mark.parametrize("newest", [None, {"survives_cluster_loss": False}], ids=["none", "does not survive"])
def test_without_a_savepoint_that_is_enough_nothing_would_be_left(newest: dict[str, Any] | None) -> None:
    status = status_of(archive(log()), savepoint())
    assert recovery_point(None if newest is None else summary(CAPTURED, **newest), status) is None


@pytest.mark.parametrize(("at", "told"), [(CAPTURED + 1, CAPTURED + 1), (CAPTURED, None)])
def test_a_cut_behind_the_savepoint_is_told(at: int, told: int | None) -> None:
    cut = ArchivedCut(captured_at=at, proof=savepoint().proof, topics={}, inputs=(), written=(), tails=())
    assert status_of(archive(log(), cut=cut), savepoint()).state_at == told


def test_an_archive_that_cannot_be_used_promises_nothing() -> None:
    assert point(unusable("entry 7 is torn")) == CAPTURED
    assert not unusable("entry 7 is torn").working


@pytest.mark.parametrize(
    ("changes", "working"),
    [
        ({}, True),
        ({"at": NOW - 151_000}, False),
        ({"at": NOW + 151_000}, False),
        ({"event": ArchiveEvent.ENDED}, False),
        ({"at": None, "event": None}, False),
    ],
    ids=["said something", "silent", "of a clock that is ahead", "ended", "never began"],
)
def test_an_archiver_is_at_work_that_has_said_something_lately(changes: dict[str, Any], working: bool) -> None:
    assert status_of(archive(log(), **changes), savepoint()).working is working


def test_offsets_that_were_gone_before_they_were_archived_are_counted() -> None:
    lost = log(ranges=(segment(15, 20, [15, 19]),), gaps=(Gap(start=10, end=15, reason="gone"),))
    assert status_of(archive(lost), savepoint()).lost == 5


def test_where_a_savepoint_has_copied_the_last_records_itself_only_its_ranges_say_behind_which_the_archive_goes_on() -> None:
    copied = image((segment(0, 10, [0, 9]), segment(10, 13, [11])), end=13)
    whole = manifest_of(topic((copied,), role=TopicRole.INPUT), captured_at=CAPTURED)
    found = archive(log())
    outlined = extended(codec.loads(Manifest, codec.dumps(whole), where="the manifest"), found, outline=True)
    read = extended(whole, found)
    assert outlined is not None
    assert read is not None
    assert (len(outlined.left), read.left, read.safe_at) == (1, (), SAFE)
