"""Makes a store's changelog from an edited table: the rows, their partitions, and the savepoint that contains them.

Only this changelog differs from the savepoint that the table was made from. An unchanged row keeps its bytes, offset, timestamp and headers. An added
row gets an offset after the end of the log. Only the load of a restore uses these offsets.

Rows are put where Kafka's default partitioner puts them: murmur2 of the key's bytes. Kafka Streams uses it unless the application sets another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.compaction.latest_per_key import why_never
from streams_recovery.core.compaction.rewritten import rewritten
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.kafka_types import WINDOWED, Consistency, StoreKind
from streams_recovery.core.repository.compaction_proof import Compaction
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, PartitionImage, Provenance, SegmentFile, TopicImage
from streams_recovery.core.state.table import Entry, Headers, Identity, split_key, undeleted

WRITABLE: Final = WINDOWED | {StoreKind.KEY_VALUE}
# Subscriptions of a foreign-key join are partitioned by the foreign key, which is only a part of their key.
_FOREIGN_KEY_STORE: Final = re.compile(r"KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-\d+|.+-subscription-store")
_NAMED: Final = 5
# Constants of murmur2.
_MASK: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An encoded row of the table: the whole changelog key, and the new value. ``timestamp`` (ms) is None if none was given."""

    key: bytes
    value: bytes
    timestamp: int | None
    headers: Headers | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChangelog:
    """A changelog before the edit: the newest entry of each key, including deleted ones, and for each partition the last entry with the latest
    timestamp, which has the stream time of a windowed store.
    """

    kind: StoreKind
    images: tuple[PartitionImage, ...]
    entries: Mapping[Identity, Entry]
    latest: Mapping[int, Entry]
    captured_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """The new entries of every partition in offset order, and the number of changes. ``compared`` counts the keys whose partition was checked. With
    0, added keys are in the partitions of Kafka's default partitioner, and no key confirms that the application uses it.
    """

    partitions: Mapping[int, tuple[Entry, ...]]
    kept: int
    changed: int
    added: int
    removed: int
    compared: int

    @property
    def rows(self) -> int:
        """Number of keys in the table that are not deleted."""
        return self.kept + self.changed + self.added


def check_writable(source: Manifest, topic: TopicImage, store: str, kind: StoreKind) -> None:
    """Raise ``Refused`` for a store whose changelog cannot be made exactly from a table, and for a savepoint that cannot be the base."""
    if source.consistency not in (Consistency.EXACT, Consistency.EDITED):
        raise Refused(
            f"savepoint {source.savepoint_id} is `{source.consistency}`: {'; '.join(source.proof.reasons)}",
            next_step="edit an exact savepoint",
            savepoint=source.savepoint_id,
        )
    why = why_never(topic, kind)
    if why is None and kind not in WRITABLE:
        why = f"what a {kind} store logs is more than keys and values"
    if why is None and _FOREIGN_KEY_STORE.fullmatch(store):
        why = "it holds the subscriptions of a foreign-key join, which are not in the partition of their key"
    if why is None and any(image.gaps for image in topic.partitions):
        why = "its changelog has a gap"
    if why is not None:
        raise Refused(
            f"store {store} cannot be written from a table: {why}",
            next_step="nothing was changed; rebuild such a store from its input",
            store=store,
        )


def edited(base: StoredChangelog, table: Sequence[Wanted]) -> Edit:
    """The changelog with exactly the keys of ``table``. In a windowed store all deleted keys stay as tombstones, because the keys of such a store
    contain its time.

    Raises ``ConfigInvalid`` for a key that is in the table twice and for a timestamp that cannot be written, ``Refused`` for a key that is not in the
    partition of Kafka's default partitioner.
    """
    compared = _check_partitions(base)
    now: dict[Identity, Wanted] = {}
    for row in table:
        at = (_partition(base, row.key), row.key, 0)
        if at in now:
            raise ConfigInvalid(f"the key {row.key.hex()} is in the table twice", next_step="leave one row of each key in it")
        now[at] = row
    alive, ends = undeleted(base.entries), {image.partition: image.end for image in base.images}
    partitions: dict[int, list[Entry]] = {image.partition: [] for image in base.images}
    changed = 0
    for at, entry in base.entries.items():
        if at in alive and at in now:
            again = _changed(entry, now[at])
            changed += again != entry
            partitions[at[0]].append(again)
        elif base.kind in WINDOWED:
            partitions[at[0]].append(entry if entry.value is None else replace(entry, value=None, headers=None))
    added = sorted(set(now) - set(alive))
    for at in added:
        partitions[at[0]] = [entry for entry in partitions[at[0]] if entry.key != at[1]]
        partitions[at[0]].append(_added(base, now[at], at[0], ends[at[0]]))
        ends[at[0]] += 1
    for number, entry in base.latest.items() if base.kind in WINDOWED else ():
        if entry.offset not in {other.offset for other in partitions[number]}:
            partitions[number].append(entry)
    return Edit(
        partitions={number: tuple(sorted(rows, key=lambda one: one.offset)) for number, rows in partitions.items()},
        kept=len(now) - len(added) - changed,
        changed=changed,
        added=len(added),
        removed=len(set(alive) - set(now)),
        compared=compared,
    )


def _check_partitions(base: StoredChangelog) -> int:
    """Check that all keys are in the partitions of Kafka's default partitioner. Returns the number of keys."""
    wrong = [entry for entry in base.entries.values() if _partition(base, entry.key) != entry.partition]
    if wrong:
        named = ", ".join(f"{entry.key.hex()} in {entry.partition}, not {_partition(base, entry.key)}" for entry in wrong[:_NAMED])
        raise Refused(
            f"{len(wrong)} of {len(base.entries)} keys do not lie where Kafka's default partitioner puts them: {named}",
            next_step="this application chooses partitions in its own way, so its state cannot be written from outside; correct a wrong kind of the store",
            keys=len(base.entries),
            elsewhere=len(wrong),
        )
    return len(base.entries)


def _partition(base: StoredChangelog, key: bytes) -> int:
    return default_partition(split_key(base.kind, key).key, len(base.images))


def _changed(entry: Entry, row: Wanted) -> Entry:
    same = row.timestamp in (None, entry.timestamp)
    timestamp = entry.timestamp if row.timestamp is None or same else _checked_time(row.timestamp, row.key)
    return replace(entry, value=row.value, timestamp=timestamp, headers=row.headers)


def _added(base: StoredChangelog, row: Wanted, partition: int, offset: int) -> Entry:
    parts = split_key(base.kind, row.key)
    # A row without a timestamp gets that of its window, or of the savepoint.
    own = parts.end if parts.end is not None else parts.start if parts.start is not None else base.captured_at
    timestamp = _checked_time(own if row.timestamp is None else row.timestamp, row.key)
    return Entry(partition=partition, offset=offset, timestamp=timestamp, key=row.key, value=row.value, headers=row.headers)


def _checked_time(timestamp: int, key: bytes) -> int:
    if timestamp <= 0:
        raise ConfigInvalid(
            f"the key {key.hex()} would get timestamp {timestamp}, and only those above 0 can be written",
            next_step="give that row of the table a timestamp",
        )
    return timestamp


def described(edit: Edit, store: str, source_id: str) -> str:
    """The edit as a sentence, which is stored in the savepoint."""
    where = "" if edit.compared else "; no key showed which partitioner the application uses"
    return (
        f"store {store} was edited: of {source_id} {edit.kept} keys are as they were, {edit.changed} changed, {edit.added} added and "
        f"{edit.removed} removed{where}"
    )


def edited_from(image: PartitionImage) -> int:
    """The start of the single range of an edited partition."""
    return image.archived_from if image.ranges.facts.ranges else min(image.log_start, image.end)


def edited_range(image: PartitionImage, entries: Sequence[Entry], file: SegmentFile | None) -> tuple[int, tuple[CopiedRange, ...]]:
    """The end of the edited log of a partition, and its single range."""
    start = edited_from(image)
    end = max(image.end, entries[-1].offset + 1 if entries else 0)
    if end == start:
        return end, ()
    return end, (CopiedRange(start=start, end=end, file=file, compacted=Compaction.LATEST_PER_KEY),)


def edited_manifest(
    source: Manifest, topic: TopicImage, images: Sequence[PartitionImage], what: str, *, savepoint_id: str, provenance: Provenance
) -> Manifest:
    """The savepoint with the same cut as ``source``, and with these partitions of ``topic``. It is labelled as edited, and says what was done, by
    whom and why.
    """
    earlier = source.proof.reasons if source.consistency is Consistency.EDITED else ()
    changed = replace(topic, partitions=tuple(images), full_since=source.captured_at)
    made = rewritten(
        source,
        tuple(changed if one.name == topic.name else one for one in source.topics),
        savepoint_id=savepoint_id,
        provenance=provenance,
        new_files=sum(image.ranges.facts.files for image in images),
    )
    return replace(made, consistency=Consistency.EDITED, proof=replace(source.proof, reasons=(*earlier, what)))


def default_partition(key: bytes, partitions: int) -> int:
    """The partition of a record with this key in a topic with this number of partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """The hash as Java's clients compute it, as an unsigned 32-bit number."""
    value = _SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> _R) * _M & _MASK
        value = value * _M & _MASK ^ k
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15
