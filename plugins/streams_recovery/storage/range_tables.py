"""Range tables of one application: read by hash and size, created once, shared by savepoints."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository import range_table
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.repository.ranges import NOTHING, RangeColumns, Ranges, TableRef, kept_tables
from streams_recovery.core.repository.stored_manifest import check_pieces, with_ranges
from streams_recovery.storage.objects import packed, unpacked
from streams_recovery.storage.repository import AlreadyExists, Repository

PartitionRanges = dict[int, RangeColumns]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToCreate:
    """A table as it is going to be stored."""

    key: str
    data: bytes


class RangeTables:
    """``opened`` keeps the tables that were read, by hash, if the caller gives it: a pass over many savepoints meets each table many times."""

    def __init__(self, repository: Repository, layout: Layout, opened: dict[str, PartitionRanges] | None = None) -> None:
        self._repository = repository
        self._layout = layout
        self._opened = opened

    def read(self, topic: str, ref: TableRef) -> PartitionRanges:
        """The table. Raises ``Damaged``, also for a missing table: its manifest needs it."""
        if self._opened is not None and ref.sha256 in self._opened:
            return self._opened[ref.sha256]
        key = self._layout.range_table(topic, ref.sha256)
        try:
            stored = self._repository.get(key, most_bytes=ref.bytes)
        except NotFound:
            raise _damaged(key, "is missing") from None
        if len(stored) != ref.bytes or hashlib.sha256(stored).hexdigest() != ref.sha256:
            raise _damaged(key, "is not what was written")
        found = range_table.decode(unpacked(stored, key, "range table"), self._layout.application_id, topic, ref.ranges, where=key)
        if self._opened is not None:
            self._opened[ref.sha256] = found
        return found

    def with_ranges(self, manifest: Manifest, *, where: str) -> Manifest:
        """``manifest`` with the ranges that its tables hold. Raises ``Damaged``."""
        tables = {ref.sha256: self.read(topic.name, ref) for topic in manifest.topics for ref in topic.tables}
        return with_ranges(manifest, tables, where=where)

    def placed(self, manifest: Manifest, *, where: str) -> tuple[Manifest, list[TableToCreate]]:
        """``manifest`` naming tables for all of its ranges, and those of them that are not there yet. Raises ``Damaged``."""
        done = [self._placed(topic, where) for topic in manifest.topics]
        return replace(manifest, topics=tuple(topic for topic, _ in done)), [table for _, table in done if table is not None]

    def create(self, table: TableToCreate) -> None:
        """Store the table. An existing one is read and compared: a savepoint must not name a table with other content. Raises ``Damaged``."""
        try:
            self._repository.create(table.key, table.data)
        except AlreadyExists:
            if self._repository.get(table.key, most_bytes=len(table.data)) != table.data:
                raise _damaged(table.key, "was there before, and is not what its name says") from None

    def _placed(self, topic: TopicImage, where: str) -> tuple[TopicImage, TableToCreate | None]:
        base = _shared(topic)
        new = {image.partition: self._columns(topic, image.partition, image.ranges, base) for image in topic.partitions}
        for image in topic.partitions:
            check_pieces(topic, image, image.ranges.before if base else NOTHING, new[image.partition], where)
        count = sum(map(len, new.values()))
        kept = kept_tables(base, count) if count else len(base)
        absorbed = [self.read(topic.name, ref) for ref in base[kept:]]
        written = {number: _joined([*(table[number] for table in absorbed if number in table), columns]) for number, columns in new.items()}
        written = {number: columns for number, columns in written.items() if columns}
        ref, table = self._encoded(topic.name, written) if written else (None, None)
        tables = (*base[:kept], *([ref] if ref else []))
        images = []
        for image in topic.partitions:
            old = sum(len(one[image.partition]) for one in absorbed if image.partition in one)
            before = image.ranges.before.ranges if base else 0
            facts = replace(image.ranges.facts, ranges=before - old + len(written.get(image.partition, ())))
            images.append(replace(image, ranges=Ranges(tables=tables, before=facts)))
        return replace(topic, partitions=tuple(images), tables=tables), table

    def _columns(self, topic: TopicImage, number: int, ranges: Ranges, base: tuple[TableRef, ...]) -> RangeColumns:
        """The ranges of a partition that have to be written: ``base`` does not hold them."""
        tp = TopicPartition(topic.name, number)
        if base or not ranges.tables:
            return RangeColumns.of(self._layout.application_id, tp, ranges.new)
        stored = [self.read(topic.name, ref) for ref in ranges.tables]
        held = [table[number] for table in stored if number in table]
        return _joined([*held, RangeColumns.of(self._layout.application_id, tp, ranges.new)])

    def _encoded(self, topic: str, partitions: Mapping[int, RangeColumns]) -> tuple[TableRef, TableToCreate]:
        data = packed(range_table.encode(self._layout.application_id, topic, partitions))
        ref = TableRef(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), ranges=sum(map(len, partitions.values())))
        key = self._layout.range_table(topic, ref.sha256)
        # What could not be read again is not written.
        range_table.decode(unpacked(data, key, "range table"), self._layout.application_id, topic, ref.ranges, where=key)
        return ref, TableToCreate(key=key, data=data)


def _shared(topic: TopicImage) -> tuple[TableRef, ...]:
    """The tables that hold the beginning of every partition and nothing else; empty if a partition begins anew."""
    held = [image.ranges for image in topic.partitions if image.ranges.tables]
    tables = held[0].tables if held else ()
    whole = all(one.tables == tables for one in held) and sum(one.before.ranges for one in held) == sum(ref.ranges for ref in tables)
    return tables if whole else ()


def _joined(several: list[RangeColumns]) -> RangeColumns:
    whole = several[0].empty()
    for one in several:
        whole.extend(one)
    return whole


def _damaged(key: str, problem: str) -> Damaged:
    return Damaged(
        f"range table {key} {problem}",
        next_step="put it back from a copy of the repository, or choose another savepoint; verifying the repository says which ones are whole",
        key=key,
    )
