"""An edited table as a new savepoint: the base's cut, offsets and other topics, and this one store's changelog made from the table.

Stores that no single process should hold are exported by Spark, as Parquet.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from streams_recovery.core.errors import ConfigInvalid, Damaged, Refused
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.encryption import attempt_with
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, Provenance, SegmentFile, TopicImage
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.state.edit import (
    Edit,
    StoredChangelog,
    Wanted,
    check_writable,
    described,
    edited,
    edited_from,
    edited_manifest,
    edited_range,
)
from streams_recovery.core.state.inspection import PartitionToShow, StateResult, StateSpec
from streams_recovery.core.state.table import Entry, Identity, newest, undeleted
from streams_recovery.core.words import LATEST, LIVE, run_suffix
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint.rewrite import check_sound, rewrite
from streams_recovery.operations.state.read import StoreSide, changelog_of, chosen, open_side, side_of, table
from streams_recovery.segments.files import workspace, write_segment
from streams_recovery.segments.schema import CREATE_TIME, SEGMENT_SCHEMA, header_array
from streams_recovery.serdes.rows import Row, RowCodec, headers_of

_BATCH = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """A request to edit a store: in a savepoint made from ``base`` (an id), by whom and why."""

    store: str
    base: str
    run_id: str
    requested_by: str
    reason: str
    work: ClassVar[str] = "edit"
    again: ClassVar[str] = "write the table again"

    @property
    def run(self) -> str:
        """The name that ids are made of."""
        return f"{self.work} {self.run_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditSummary:
    """The numbers of keys that an edit kept, changed, added and removed. ``savepoint_id`` is None when only these were asked for."""

    savepoint_id: str | None
    source_id: str
    store: str
    kept: int
    changed: int
    added: int
    removed: int
    partitioner_seen: bool


def write_state(recovery: RecoveryContext, request: EditRequest, rows: Sequence[Row], *, dry_run: bool = False) -> EditSummary:
    """Publish a savepoint in which the store holds exactly ``rows``; those without a value are no rows. It is labelled ``edited``, and a restore takes
    it only by its id. Memory holds the store and the table.

    Raises ``Refused`` for a store that cannot be written exactly and for a table that changes nothing, ``ConfigInvalid`` for one that does not fit
    the store, ``Damaged`` for a base that is not whole, ``LockHeld``. Nothing is published then.
    """
    if not request.reason.strip():
        raise ConfigInvalid("an edit without a reason", next_step="say why: it stays with the savepoint")
    if request.base == LIVE:
        raise Refused("what is running now cannot be edited", next_step="take a savepoint, and name it")
    if request.base == LATEST:
        # There may be a newer one by now, and what has changed since would be written over.
        raise Refused("a table is written back over the savepoint that it was made from", next_step="name that one by its id")
    source = recovery.savepoints.read(request.base)
    check_sound(recovery, source)
    topic = changelog_of(source, request.store)
    side = side_of(recovery, request.store, source)
    check_writable(source, topic, request.store, side.form.kind)
    base = _base(side, topic, source)
    edit = edited(base, _wanted(side, base, rows))
    if not (edit.changed or edit.added or edit.removed):
        raise Refused("the table is what the savepoint holds already", next_step="nothing was changed; edit the table first")
    savepoint_id = None if dry_run else _published(recovery, request, source, topic, edit)
    return EditSummary(
        savepoint_id=savepoint_id,
        source_id=source.savepoint_id,
        store=request.store,
        kept=edit.kept,
        changed=edit.changed,
        added=edit.added,
        removed=edit.removed,
        partitioner_seen=edit.compared > 0,
    )


def _base(side: StoreSide, topic: TopicImage, source: Manifest) -> StoredChangelog:
    latest: dict[int, Entry] = {}

    def seen(entries: Iterator[Entry]) -> Iterator[Entry]:
        for entry in entries:
            known = latest.get(entry.partition)
            if known is None or (known.timestamp, known.offset) < (entry.timestamp, entry.offset):
                latest[entry.partition] = entry
            yield entry

    entries = {at: entry for number in side.partitions for at, entry in newest(side.form.kind, seen(side.read(number))).items()}
    return StoredChangelog(kind=side.form.kind, images=topic.partitions, entries=entries, latest=latest, captured_at=source.captured_at)


def _wanted(side: StoreSide, base: StoredChangelog, rows: Sequence[Row]) -> list[Wanted]:
    """The table in the bytes of the store. Refuses one without a row: that may as well be the wrong file."""
    codec = RowCodec(side.form)
    alive = undeleted(base.entries)
    known = {codec.name(codec.row(entry)): entry for entry in alive.values()}
    if len(known) != len(alive):
        raise Refused(
            f"{len(alive)} keys of store {side.store} are {len(known)} when they are decoded: which is meant cannot be told from a table",
            next_step="set the store's key format to bytes",
            store=side.store,
            keys=len(alive),
            decoded=len(known),
        )
    like_key, like_value = next(((entry.key, entry.value) for entry in alive.values()), (None, None))
    found = []
    for row in rows:
        if row["value"] is not None:
            entry = known.get(codec.name(row))
            key = codec.key_bytes(row, like_key) if entry is None else entry.key
            value = codec.value_bytes(row, entry, like_value)
            found.append(Wanted(key=key, value=value, timestamp=row.get("timestamp"), headers=headers_of(row, entry)))
    if not found:
        raise Refused(
            "the table has no row with a value", next_step="give it the rows that the store is to hold, not only those that change"
        )
    return found


def _published(recovery: RecoveryContext, request: EditRequest, source: Manifest, topic: TopicImage, edit: Edit) -> str:
    def make(found: Manifest, savepoint_id: str, provenance: Provenance) -> Manifest:
        images = [_image(recovery, topic, image, edit.partitions[image.partition]) for image in topic.partitions]
        what = described(edit, request.store, found.savepoint_id)
        return edited_manifest(found, topic, images, what, savepoint_id=savepoint_id, provenance=provenance)

    def proof(made: Manifest) -> None:
        _check_read_back(side_of(recovery, request.store, made), edit)

    return rewrite(recovery, request, lambda: source, make, about=source.savepoint_id, proof=proof).savepoint_id


def _image(recovery: RecoveryContext, topic: TopicImage, image: PartitionImage, entries: Sequence[Entry]) -> PartitionImage:
    # Asked twice: the key of the file has the end in it, so the end is needed before there is a file.
    end, _ = edited_range(image, entries, None)
    tp = TopicPartition(topic.name, image.partition)
    end, ranges = edited_range(image, entries, _stored(recovery, tp, image, end, entries) if entries else None)
    return replace(image, end=end, last_stable=end, ranges=Ranges.of(ranges))


def _stored(recovery: RecoveryContext, tp: TopicPartition, image: PartitionImage, end: int, entries: Sequence[Entry]) -> SegmentFile:
    data_key = recovery.repository.data_keys.writing(recovery.application_id)
    key = recovery.layout.segment(tp, edited_from(image), end, attempt_with(f"edit-{uuid.uuid4().hex}", data_key))
    with workspace("a table is written") as directory:
        path = directory / "segment.parquet"
        segment = write_segment(_batches(entries), path, compression_level=recovery.config.backup.compression_level, key=data_key)
        if segment is None:
            raise Damaged(f"no row of {tp} was written", next_step="write the table again")
        recovery.repository.put_file(key, path)
        return segment.stored_as(key)


def _batches(entries: Sequence[Entry]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(entries), _BATCH):
        some = entries[start : start + _BATCH]
        columns = [
            pa.array([entry.offset for entry in some], pa.int64()),
            pa.array([entry.timestamp for entry in some], pa.int64()),
            pa.array([CREATE_TIME] * len(some), pa.int8()),
            pa.array([entry.key for entry in some], pa.binary()),
            pa.array([entry.value for entry in some], pa.binary()),
            header_array([entry.headers for entry in some]),
        ]
        yield pa.record_batch(columns, schema=SEGMENT_SCHEMA)


def _check_read_back(side: StoreSide, edit: Edit) -> None:
    wanted: Mapping[Identity, Entry] = newest(side.form.kind, (entry for several in edit.partitions.values() for entry in several))
    if table(side) != wanted:
        raise Damaged(f"savepoint {side.name} would not hold what was written", next_step="nothing was published; write the table again")


SPEC, RESULT = "state-spec", "state-result"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The table of a store in a savepoint, with its deleted keys if wanted, to ``directory`` or, when that is None, into the repository."""

    store: str
    savepoint: str
    run_id: str
    deleted: bool
    directory: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTicket:
    """An export under way, and the job for it."""

    savepoint_id: str
    job: JobPlan


def begin_export(recovery: RecoveryContext, request: ExportRequest) -> ExportTicket:
    """Leave a Spark job its specification. Raises what ``open_side`` raises."""
    manifest = chosen(recovery, request.savepoint)
    side, topic = open_side(recovery, request.store, manifest.savepoint_id), changelog_of(manifest, request.store)
    run = run_suffix(request.run_id)
    spec = StateSpec(
        application_id=manifest.application_id,
        savepoint_id=manifest.savepoint_id,
        store=request.store,
        form=side.form,
        partitions=tuple(PartitionToShow(partition=image.partition, files=tuple(image.files())) for image in topic.partitions),
        deleted=request.deleted,
        directory=request.directory,
        run=run,
    )
    work = f"{manifest.savepoint_id}-{run}"
    job = JobPlan(
        spec=recovery.artifacts.write(work, SPEC, spec),
        result_key=recovery.artifacts.reserve(work, f"{RESULT}-{uuid.uuid4().hex}"),
        ranges=len(spec.partitions),
        offsets=sum(i.end for i in topic.partitions),
    )
    return ExportTicket(savepoint_id=manifest.savepoint_id, job=job)


def conclude_export(recovery: RecoveryContext, written: ArtifactRef) -> StateResult:
    """The files that the job wrote. Raises ``Damaged`` when a file of it is not there."""
    result = recovery.artifacts.read(StateResult, written)
    missing = [part.key for part in result.parts if recovery.repository.size(part.key) is None]
    if missing:
        raise Damaged(f"{missing[0]} is missing", next_step="write the table again", key=missing[0])
    return result
