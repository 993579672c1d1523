"""The past of an application with one input, as savepoints tell it and as it really was: logs that are truncated, created again, emptied by retention and read
while clocks are wrong.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from streams_recovery.core.kafka_types import CommittedOffset, Consistency, TopicPartition, TopicRole
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, PartitionCut, PartitionImage, TopicImage
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.repository.segment_file import joined
from streams_recovery.core.savepoint.chain import ChainPolicy, plan_partition, topic_full_reason
from streams_recovery.core.words import new_id
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.segments.files import write_segment
from streams_recovery.segments.schema import SEGMENT_SCHEMA
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.examples.savepoints import image, manifest_of, topic

APPLICATION, INPUT = "shop", "in"
T0, MINUTE, HOUR = 1_795_219_200_000, 60_000, 3_600_000
POLICY = ChainPolicy(max_savepoints=1_000, max_age_days=1_000)


@dataclass(frozen=True)
class Record:
    """One that was really written at ``written``, and says that it was at ``stamp``."""

    number: int
    stamp: int
    written: int


@dataclass
class Log:
    """One partition: every record that it ever had in this incarnation, of which those below ``start`` are gone by now."""

    records: list[Record] = field(default_factory=list)
    start: int = 0
    epoch: int = 0
    epoch_end: int | None = None
    committed: int = 0
    state: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Taken:
    """A savepoint, and what really was then: the log and the numbers of the records in the state, by partition."""

    manifest: Manifest
    at: int
    topic_id: str
    logs: tuple[tuple[Record, ...], ...]
    states: tuple[tuple[int, ...], ...]


class History:
    """What happens to the application, one step at a time. Its savepoints are in ``store``."""

    def __init__(self, partitions: int = 1, settings: dict[str, str] | None = None) -> None:
        self.now = T0
        self.logs = [Log() for _ in range(partitions)]
        self.settings = settings or {"cleanup.policy": "delete"}
        self.topic_id = "id-1"
        self.taken: list[Taken] = []
        self.repository = Repository(StorageLocation(backend="memory"), None)
        self.store = SavepointStore(self.repository, Layout(APPLICATION), lambda: self.now)
        self._numbers = 0

    def recovery(self, other: RecoveryContext) -> RecoveryContext:
        """Another application's context, on this repository and at this time."""
        return replace(other, repository=self.repository, clock=lambda: self.now)

    def wait(self, time: int) -> None:
        self.now += time

    def write(self, *ahead: int, partition: int = 0) -> None:
        """Append records whose clocks are so far ahead, a second after each other."""
        for difference in ahead:
            self.now += 1_000
            self._numbers += 1
            self.logs[partition].records.append(Record(self._numbers, self.now + difference, self.now))

    def read(self, records: int | None = None, partition: int = 0) -> None:
        """The application processes so many records, or all."""
        log = self.logs[partition]
        upto = len(log.records) if records is None else min(len(log.records), log.committed + records)
        log.state += [record.number for record in log.records[log.committed : upto]]
        log.committed = upto

    def expire(self, partition: int = 0) -> None:
        """Retention removes all that was processed."""
        self.logs[partition].start = self.logs[partition].committed

    def truncate(self, records: int, partition: int = 0) -> None:
        """The last records are lost, and others come in their place."""
        log = self.logs[partition]
        left = max(log.start, len(log.records) - records)
        if left < len(log.records):
            log.epoch, log.epoch_end = log.epoch + 1, left
        del log.records[left:]
        log.committed = min(log.committed, left)

    def create_again(self) -> None:
        """The input is deleted and created again, empty."""
        self.topic_id = f"id-{self._numbers}-{self.now}"
        self.logs = [Log(state=log.state) for log in self.logs]

    def save(self, *, archived: bool = True, exact: bool = True, ahead: int = 0) -> Taken:
        """A savepoint, which says that it is of a moment so far ``ahead``."""
        self.now += 1_000
        parent = self.taken[-1].manifest if self.taken else None
        savepoint_id = new_id(self.now, f"run-{len(self.taken)}", after=[one.manifest.savepoint_id for one in self.taken])
        why = topic_full_reason(TopicRole.INPUT, self.topic_id, self.settings, self.now, parent, INPUT, POLICY)
        before = parent.topic(INPUT) if parent is not None else None
        images = tuple(
            self._image(number, log, savepoint_id, before, why if archived else None, archived=archived)
            for number, log in enumerate(self.logs)
        )
        found: TopicImage = replace(
            topic(images, name=INPUT, role=TopicRole.INPUT, topic_id=self.topic_id), config=self.settings, archived=archived
        )
        manifest = replace(
            manifest_of(
                found,
                topic((image((), end=0),), name=f"{APPLICATION}-s-changelog"),
                captured_at=self.now + ahead,
                consistency=Consistency.EXACT if exact else Consistency.AHEAD,
            ),
            savepoint_id=savepoint_id,
            application_id=APPLICATION,
        )
        self.store.publish(manifest)
        logs = tuple(tuple(log.records) for log in self.logs)
        taken = Taken(self.store.read(savepoint_id), self.now, self.topic_id, logs, tuple(tuple(log.state) for log in self.logs))
        self.taken.append(taken)
        return taken

    def _image(
        self, number: int, log: Log, savepoint_id: str, before: TopicImage | None, why: str | None, *, archived: bool
    ) -> PartitionImage:
        committed = CommittedOffset(offset=log.committed, metadata="", leader_epoch=None)
        end = len(log.records)
        cut = PartitionCut(
            tp=TopicPartition(INPUT, number), log_start=log.start, last_stable=end, end=end, leader_epoch=log.epoch, committed=committed
        )
        parent = before.partitions[number] if before is not None and before.archived else None
        plan = plan_partition(cut, TopicRole.INPUT, parent, why, epoch_end=log.epoch_end)
        new = []
        if archived and plan.missing is not None:
            new.append(self._copied(number, log.records, plan.missing.start, plan.missing.end, savepoint_id))
        ranges = joined((*parent.ranges, *new)) if plan.shares and parent is not None else joined(new)
        return PartitionImage(
            partition=number,
            log_start=log.start,
            last_stable=end,
            end=end,
            leader_epoch=log.epoch,
            committed=committed,
            ranges=Ranges.of(ranges if archived else ()),
            gaps=plan.gaps if archived else (),
        )

    def _copied(self, number: int, records: Sequence[Record], start: int, end: int, savepoint_id: str) -> CopiedRange:
        rows: list[dict[str, Any]] = [
            {
                "offset": offset,
                "timestamp": records[offset].stamp,
                "timestamp_type": 0,
                "key": b"k",
                "value": b"%d" % records[offset].number,
                "headers": None,
            }
            for offset in range(start, end)
        ]
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "segment.parquet"
            written = write_segment(pa.Table.from_pylist(rows, schema=SEGMENT_SCHEMA).to_batches(), path, compression_level=1)
            assert written is not None
            key = Layout(APPLICATION).segment(TopicPartition(INPUT, number), start, end, f"of-{savepoint_id}")
            self.repository.put_file(key, path)
        return CopiedRange(start=start, end=end, file=written.stored_as(key))
