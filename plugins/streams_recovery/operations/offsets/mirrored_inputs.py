"""Places where the inputs of a savepoint go on at another cluster that a mirror has carried them to. The records around each committed offset are looked for
there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.offsets.by_content import find_place
from streams_recovery.core.offsets.mirrored_input import (
    SAMPLE,
    InputPlace,
    KnownFrom,
    LogRecord,
    MirroredLog,
    Place,
    SameOffset,
    Stretch,
    Window,
    WindowOf,
    same_offset,
    sample_starts,
)
from streams_recovery.core.repository.manifest import Manifest, SegmentFile
from streams_recovery.core.topic_settings import LOG_APPEND, TIMESTAMP_TYPE, compacts
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.segments.files import read_segment, workspace
from streams_recovery.segments.queries import fetch
from streams_recovery.segments.schema import header_lists, record_digest
from streams_recovery.storage.repository import Repository

# Records around the offset. Those behind it are all compared, because one that is missing there is lost.
BEFORE: Final = 1_000
BEHIND: Final = 100_000
# Offsets of one mirrored partition that are looked through.
MOST_READ: Final = 200_000_000
_FIRST_SPAN: Final = 4 * BEFORE
_WIDER: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedCluster:
    """A cluster, and how its records are read."""

    connection: KafkaConnection
    cluster: KafkaCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedInputs:
    """A savepoint with its ranges, and where its segments are."""

    repository: Repository
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """Facts that a person vouches for, by the names of the old topics: ``same_offsets`` have the same offsets at the target, which is sampled; the mirror of
    ``committed_only`` reads committed records only, so that none of an aborted transaction is at the target.
    """

    same_offsets: frozenset[str] = frozenset()
    committed_only: frozenset[str] = frozenset()


def find_places(
    archive: ArchivedInputs,
    wanted: Mapping[TopicPartition, CommittedOffset],
    names: Mapping[str, str],
    target: ReachedCluster,
    *,
    old: ReachedCluster | None = None,
    assumed: Assumed | None = None,
    most_read: int = MOST_READ,
) -> tuple[InputPlace, ...]:
    """The place of each ``wanted`` offset in its mirrored partition. ``names`` has the names of topics that are called otherwise at the target.

    The records around an offset come from ``old``, the cluster that the savepoint was taken of, where it answers and the topic is still the same; else from
    the savepoint. Reads only. Memory is for ``BEFORE`` and ``BEHIND`` records of one partition.

    Raises ``NotFound`` for a topic that is not at the target, ``Refused`` for another number of partitions there or for more than ``most_read`` offsets to
    look through.
    """
    assumed = assumed or Assumed()
    found = _described(archive, wanted, names, target)
    sources = _same_topics(archive, wanted, old)
    places = []
    for tp in sorted(wanted):
        there = TopicPartition(names.get(tp.topic, tp.topic), tp.partition)
        known = _Live(old, tp) if old is not None and tp.topic in sources else _Archived(archive, tp)
        log = _mirrored_log(target, there, found[there.topic], compacted=known.compacted, committed_only=tp.topic in assumed.committed_only)
        window = known.window(wanted[tp].offset)
        seen = _Mirrored(target.connection, there, log, most_read)
        place: Place | SameOffset = (
            seen.at_same_offset(known, window) if tp.topic in assumed.same_offsets else seen.by_content(target, window)
        )
        known_from = KnownFrom.SAVEPOINT if isinstance(known, _Archived) else KnownFrom.OLD_CLUSTER
        places.append(InputPlace(source=tp, target=there, committed=wanted[tp].offset, known_from=known_from, read=seen.read, place=place))
    return tuple(places)


def records_there(target: ReachedCluster, tp: TopicPartition) -> tuple[Iterator[tuple[int, bytes]], int]:
    """Offset and digest of every committed record of a partition, in order, and its end. Raises ``Refused`` for more than ``MOST_READ`` offsets to look
    through.
    """
    settings = target.cluster.settings([tp.topic])[tp.topic]
    log = _mirrored_log(target, tp, settings, compacted=False, committed_only=True)
    seen = _Mirrored(target.connection, tp, replace(log, timestamps=True), MOST_READ)
    return ((record.offset, record.digest) for record in seen.records(log.start, log.end)), target.cluster.high_watermarks([tp])[tp]


def archived_digests(archive: ArchivedInputs, tp: TopicPartition) -> Iterator[bytes]:
    """The digest of every record of a partition that the savepoint has, in order, a file at a time."""
    for batch in _Archived(archive, tp).all_rows():
        for record in _digested([batch], timestamps=True):
            yield record.digest


def _described(
    archive: ArchivedInputs, wanted: Collection[TopicPartition], names: Mapping[str, str], target: ReachedCluster
) -> dict[str, dict[str, str]]:
    """The settings in force of each topic at the target."""
    topics = {tp.topic: names.get(tp.topic, tp.topic) for tp in wanted}
    found = target.cluster.describe_topics(sorted(topics.values()))
    if missing := sorted({*topics.values()} - found.keys()):
        raise NotFound(
            f"not at the target: {', '.join(missing)}",
            next_step="check topic_map and the mirror's policy for names, or load these inputs from the savepoint",
            topics=missing,
        )
    counts = {
        name: (len(image.partitions), found[there].partitions) for name, there in topics.items() if (image := archive.manifest.topic(name))
    }
    if wrong := [f"{topics[name]} has {new}, {name} had {old}" for name, (old, new) in sorted(counts.items()) if old != new]:
        raise Refused(
            f"partitions at the target are not those of the savepoint: {'; '.join(wrong)}",
            next_step="a key would be in another partition than its state; mirror the topic with the same number of partitions",
            topics=sorted(name for name, (old, new) in counts.items() if old != new),
        )
    return target.cluster.settings(sorted(topics.values()))


def _same_topics(archive: ArchivedInputs, wanted: Collection[TopicPartition], old: ReachedCluster | None) -> set[str]:
    """Topics that the old cluster still has as they were."""
    if old is None:
        return set()
    now = old.cluster.describe_topics(sorted({tp.topic for tp in wanted}))
    images = {topic.name: topic for topic in archive.manifest.topics}
    return {name for name, found in now.items() if name in images and found.topic_id == images[name].topic_id}


def _mirrored_log(
    target: ReachedCluster, tp: TopicPartition, settings: Mapping[str, str], *, compacted: bool, committed_only: bool
) -> MirroredLog:
    start = target.cluster.log_starts([tp])[tp]
    return MirroredLog(
        start=start,
        end=target.cluster.last_stable_offsets([tp])[tp],
        read_from=start,
        compacted=compacted or compacts(settings),
        committed_only=committed_only,
        timestamps=settings[TIMESTAMP_TYPE] != LOG_APPEND,
    )


class _Mirrored:
    """A partition at the target."""

    def __init__(self, connection: KafkaConnection, tp: TopicPartition, log: MirroredLog, most_read: int) -> None:
        self._connection, self._tp, self._log, self._most = connection, tp, log, most_read
        self.read = 0

    def by_content(self, target: ReachedCluster, window: _Known) -> Place:
        log = self._log
        if log.timestamps and window.since is not None and window.since >= 0:
            # None of the records can be in front of it: each has its timestamp there too.
            first = target.cluster.offsets_for_times([self._tp], window.since)[self._tp]
            log = replace(log, read_from=max(log.start, log.end if first is None else min(first, log.end)))
        return find_place(window.digested(timestamps=log.timestamps), self.records(log.read_from, log.end), log)

    def at_same_offset(self, known: _Archived | _Live, window: _Known) -> Place | SameOffset:
        log = self._log
        around = window.digested(timestamps=log.timestamps)
        sampled = [known.sample(begin) for begin in sample_starts(known.first_offset, window.committed, there_from=log.start)]
        edges = [around.before[-SAMPLE:], around.behind[:SAMPLE]]
        rows = [*(_digested(some, timestamps=log.timestamps) for some in sampled), *edges]
        stretches = []
        for old in filter(None, rows):
            begin, end = max(log.start, old[0].offset), min(log.end, old[-1].offset + 1)
            stretches.append(Stretch(old, tuple(self.records(begin, end))))
        return same_offset(around, stretches, log)

    def records(self, begin: int, end: int) -> Iterator[LogRecord]:
        """The records between two offsets."""
        if end - begin > self._most:
            raise Refused(
                f"{end - begin} offsets of {self._tp} would have to be read to find where the input goes on; at most {self._most} are",
                next_step="take a newer savepoint, or allow more",
                topic=self._tp.topic,
                partition=self._tp.partition,
                offsets=end - begin,
            )
        self.read += max(0, end - begin)
        with RangeReader(self._connection, self._tp, begin, end) as reader:
            for batch in reader:
                yield from _digested([batch], timestamps=self._log.timestamps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known(WindowOf[pa.RecordBatch]):
    """A window as rows, until it is known whether their timestamps count."""

    @property
    def since(self) -> int | None:
        """The oldest timestamp."""
        return min((pc.min(batch.column("timestamp")).as_py() for batch in (*self.before, *self.behind) if len(batch)), default=None)

    def digested(self, *, timestamps: bool) -> Window:
        return Window(
            committed=self.committed,
            before=_digested(self.before, timestamps=timestamps),
            behind=_digested(self.behind, timestamps=timestamps),
            first=self.first,
            last=self.last,
        )


class _Archived:
    """A partition of the old log as the savepoint has it."""

    def __init__(self, archive: ArchivedInputs, tp: TopicPartition) -> None:
        topic = archive.manifest.topic(tp.topic)
        image = next((one for one in topic.partitions if one.partition == tp.partition), None) if topic is not None else None
        if topic is None or image is None:
            raise NotFound(
                f"savepoint {archive.manifest.savepoint_id} does not know {tp}",
                next_step="name inputs of the application",
                partition=str(tp),
            )
        self._repository, self._image = archive.repository, image
        self._archived = topic.archived
        self.compacted = compacts(topic.config) or any(piece.compacted is not None for piece in image.ranges)

    @property
    def first_offset(self) -> int:
        return self._image.archived_from

    def window(self, committed: int) -> _Known:
        """The records around the offset, up to the first gap on each side."""
        image = self._image
        lowest = max((gap.end for gap in image.gaps if gap.start < committed), default=image.archived_from)
        highest = min((gap.start for gap in image.gaps if gap.end > committed), default=image.end)
        if not self._archived or not lowest <= committed <= highest:
            return _Known(committed=committed, before=(), behind=(), first=False, last=False)
        files = [file for file in image.files() if file.last_offset >= lowest and file.first_offset < highest]
        before = self._last_rows([file for file in files if file.first_offset < committed], lowest, committed)
        behind = self._first_rows([file for file in files if file.last_offset >= committed], committed, highest, BEHIND)
        nothing_older = lowest == image.archived_from <= image.log_start
        return _Known(
            committed=committed,
            before=tuple(before),
            behind=tuple(behind),
            first=nothing_older and _rows(before) < BEFORE,
            last=highest == image.end and _rows(behind) < BEHIND,
        )

    def sample(self, begin: int) -> list[pa.RecordBatch]:
        """The first records from this offset on."""
        return self._first_rows([file for file in self._image.files() if file.last_offset >= begin], begin, self._image.end, SAMPLE)

    def all_rows(self) -> Iterator[pa.RecordBatch]:
        """Every record that the savepoint has."""
        return self._batches(self._image.files(), 0, self._image.end)

    def _last_rows(self, files: Sequence[SegmentFile], lowest: int, committed: int) -> list[pa.RecordBatch]:
        found = list[pa.RecordBatch]()
        for file in reversed(files):
            found = [*_newest(self._batches([file], lowest, committed), BEFORE - _rows(found)), *found]
            if _rows(found) >= BEFORE:
                break
        return found

    def _first_rows(self, files: Sequence[SegmentFile], begin: int, end: int, most: int) -> list[pa.RecordBatch]:
        return _oldest(self._batches(files, begin, end), most)

    def _batches(self, files: Iterable[SegmentFile], begin: int, end: int) -> Iterator[pa.RecordBatch]:
        with workspace("a segment is fetched") as directory:
            for file in files:
                fetch(self._repository, file, directory / "segment.parquet")
                for batch in read_segment(directory / "segment.parquet", file, self._repository.data_keys):
                    yield _between(batch, begin, end)


class _Live:
    """A partition of the old log as the old cluster has it."""

    def __init__(self, old: ReachedCluster, tp: TopicPartition) -> None:
        self._connection, self._tp = old.connection, tp
        self.first_offset = old.cluster.log_starts([tp])[tp]
        self._end = old.cluster.last_stable_offsets([tp])[tp]
        self.compacted = compacts(old.cluster.settings([tp.topic])[tp.topic])

    def window(self, committed: int) -> _Known:
        """The records around the offset."""
        start, end = self.first_offset, self._end
        if not start <= committed <= end:
            return _Known(committed=committed, before=(), behind=(), first=False, last=False)
        # Offsets need not have records.
        span = _FIRST_SPAN
        while True:
            begin = max(start, committed - span)
            before = _newest(self._batches(begin, committed), BEFORE)
            if begin == start or _rows(before) >= BEFORE:
                break
            span *= _WIDER
        behind = _oldest(self._batches(committed, end), BEHIND)
        return _Known(
            committed=committed, before=tuple(before), behind=tuple(behind), first=_rows(before) < BEFORE, last=_rows(behind) < BEHIND
        )

    def sample(self, begin: int) -> list[pa.RecordBatch]:
        """The first records from this offset on."""
        return _oldest(self._batches(begin, self._end), SAMPLE)

    def _batches(self, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        with RangeReader(self._connection, self._tp, begin, end) as reader:
            yield from reader


def _rows(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(len(batch) for batch in batches)


def _between(batch: pa.RecordBatch, begin: int, end: int) -> pa.RecordBatch:
    offsets = batch.column("offset")
    return batch.filter(pc.and_(pc.greater_equal(offsets, begin), pc.less(offsets, end)))


def _oldest(batches: Iterable[pa.RecordBatch], most: int) -> list[pa.RecordBatch]:
    found, count = list[pa.RecordBatch](), 0
    for batch in batches:
        found.append(batch.slice(0, most - count))
        count += len(found[-1])
        if count >= most:
            break
    return found


def _newest(batches: Iterable[pa.RecordBatch], most: int) -> list[pa.RecordBatch]:
    found, count = deque[pa.RecordBatch](), 0
    for batch in batches:
        found.append(batch)
        count += len(batch)
        while found and count - len(found[0]) >= most:
            count -= len(found.popleft())
    if found and count > most:
        found[0] = found[0].slice(count - most)
    return list(found)


def _digested(batches: Iterable[pa.RecordBatch], *, timestamps: bool) -> tuple[LogRecord, ...]:
    found = list[LogRecord]()
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value")]
        for offset, stamp, key, value, headers in zip(*columns, header_lists(batch.column("headers")), strict=True):
            digest = record_digest(stamp if timestamps else None, key, value, headers)
            found.append(
                LogRecord(offset, stamp, digest, None if key is None else record_digest(None, key, None, None), tombstone=value is None)
            )
    return tuple(found)
