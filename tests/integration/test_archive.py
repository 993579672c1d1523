"""An archiver on a real broker: what it copies while records come, what becomes of it when it is killed, and what savepoints and restores make of it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from streams_recovery.core.archive.log import Archive, ArchiveEvent
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.waiting import poll
from streams_recovery.engine.submitter import SparkJob, Submitter
from streams_recovery.operations import archive
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.savepoint_steps import published
from tests.support.applications.small import Small, configured, rows_of, surviving
from tests.support.applications.topic_records import produce
from tests.support.repository.golden import checked

pytestmark = pytest.mark.spark


@pytest.fixture
def archived(small: Small) -> Small:
    """The application, whose configuration asks for an archive every second."""
    small = surviving(small)
    config = configured(small.recovery, archive={"enabled": True, "interval": "PT1S"})
    return replace(small, recovery=replace(small.recovery, config=config))


@dataclass
class Archiver:
    """One that runs in a thread."""

    recovery: RecoveryContext
    error: BaseException | None = None

    def upto(self, tp: TopicPartition, seconds: float = 30) -> Archive:
        """Wait until all that is in a log by now is archived, and return the archive."""
        end = self.recovery.cluster.high_watermarks([tp])[tp]

        def there() -> Archive | None:
            if self.error is not None:
                raise self.error
            found = archive.read_archive(self.recovery)
            return found if tp in found.logs and found.newest[tp].end >= end else None

        found = poll(there, seconds=seconds, interval=0.1)
        assert found is not None, archive.read_archive(self.recovery)
        return found


@contextmanager
def archiving(recovery: RecoveryContext, submitter: Submitter, seconds: float) -> Iterator[Archiver]:
    """An archiver for so many seconds. The block goes on beside it, and ends when it has ended."""
    ticket = archive.begin(recovery, f"test-{uuid.uuid4().hex}", hand_over_seconds=seconds)
    job = SparkJob(
        name="archive",
        repository=recovery.repository,
        connection=recovery.connection,
        credentials=None,
        spec=ticket.spec,
        result_key=ticket.result_key,
    )
    found = Archiver(recovery)

    def run() -> None:
        try:
            submitter.submit(job)
        except BaseException as error:  # noqa: BLE001  # the test is told
            found.error = error

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield found
    finally:
        thread.join()
    if found.error is not None:
        raise found.error


def test_what_comes_is_archived_behind_the_savepoint(archived: Small, in_session: Submitter) -> None:
    recovery, source = archived.recovery, archived.input
    base = published(archived)
    with archiving(recovery, in_session, 8) as archiver:
        for _ in range(3):
            produce(recovery, source, 7)
            found = archiver.upto(source)
            behind = archive.archived_behind(recovery, base)
            assert behind is not None
            assert behind.left == ()
    assert found.newest[source].end == 26
    ended = archive.read_archive(recovery)
    assert ended.event is ArchiveEvent.ENDED
    behind = archive.archived_behind(recovery, base)
    assert behind is not None
    assert behind.records == 21
    rows = rows_of(recovery, behind.manifest, source)
    assert [row["offset"] for row in rows] == list(range(26))
    assert ended.newest[source].files == 1, "joined at the end"


def test_a_savepoint_takes_what_is_archived_and_copies_only_state(archived: Small, in_session: Submitter) -> None:
    recovery, source = archived.recovery, archived.input
    base = published(archived)
    with archiving(recovery, in_session, 25) as archiver:
        for _ in range(3):
            produce(recovery, source, 7)
            archiver.upto(source)
        produce(archived.recovery, archived.changelog, 3)
        small_files = {file.key for log in archive.read_archive(recovery).newest.values() for one in log.ranges if (file := one.file)}
        assert len(small_files) == 3
        taken = published(archived)
        assert taken.parent_id == base.savepoint_id
        before = archive.read_archive(recovery)
        produce(recovery, source, 4)
        archiver.upto(source)
        assert archive.archived_behind(recovery, taken) is not None
    image = taken.topic(source.topic)
    assert image is not None
    assert [file.rows for file in image.partitions[0].files()] == [5, 21], "joined before it was taken"
    assert not small_files & {file.key for _, file in taken.files()}
    assert before.newest[source].end == 26
    behind = archive.archived_behind(recovery, taken)
    assert behind is not None
    assert [row["offset"] for row in rows_of(recovery, behind.manifest, source)] == list(range(30))
    assert checked(recovery, "full").good
    # And without an archiver the rest is copied, behind what it has left.
    produce(recovery, source, 2)
    last = published(archived)
    assert [row["offset"] for row in rows_of(recovery, last, source)] == list(range(32))
    with archiving(recovery, in_session, 5) as archiver:
        produce(recovery, source, 1)
        archiver.upto(source)
    behind = archive.archived_behind(recovery, last)
    assert behind is not None
    assert (behind.records, behind.left) == (1, ())
