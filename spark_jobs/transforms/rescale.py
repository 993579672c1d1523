"""Placing records anew: a proof of where they lie, one task a class of partitions that writes them, and what both sides hold. Nothing is shuffled."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.access import JobAccess
from spark_jobs.transforms.counting import counted
from spark_jobs.transforms.log_digest import NOTHING, LogDigest, LogHeld
from spark_jobs.transforms.one_process import Tasks
from spark_jobs.transforms.progress import Doing
from spark_jobs.transforms.rescale_rows import (
    NOWHERE,
    Numbers,
    check_own,
    has_partitions,
    in_stream_time,
    places,
    timed,
    values_moved,
    without_partitions,
)
from spark_jobs.transforms.segment_reader import archived_batches, stored_segment
from spark_jobs.transforms.task_runner import run_tasks
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import KeyForm, StoreKind, TopicPartition
from streams_recovery.core.repository.compaction_proof import RescaledLog
from streams_recovery.core.repository.manifest import CopiedRange
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.rescale.moved import PartitionPlaced, PartitionToPlace, RescaleResult, RescaleSpec, TopicToPlace
from streams_recovery.core.rescale.placement import MOST_KEYS, FormFailed, FormPair, FormProof, PartitionSeen, candidates, proven
from streams_recovery.core.rescale.values import PrimarySide
from streams_recovery.segments.files import workspace
from streams_recovery.segments.schema import SEGMENT_SCHEMA

# New partitions that one task writes: of more, several tasks read the same old ones.
_WRITTEN_AT_ONCE: Final = 8
# Old partitions that one task reads by row groups in memory: of more they wait on the disk.
_READ_AT_ONCE: Final = 8
# Of zstd. The files are read twice and are gone with their savepoint: no later one has them.
_LEVEL: Final = 1
# Values are most of the bytes of a log, and few of them name partitions.
_NO_VALUES: Final = [name for name in SEGMENT_SCHEMA.names if name != "value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassToPlace:
    """Old partitions whose records go to the new partitions ``into``, and to other ones that other tasks write."""

    topic: TopicToPlace
    form: KeyForm | None
    into: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPlaced:
    """The new partitions of a class that one task has written."""

    partitions: tuple[PartitionPlaced, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProven:
    """What was seen of an old partition, and what it holds; nothing of what it holds where only the proof is wanted."""

    seen: PartitionSeen
    held: LogHeld


def rescale(context: Tasks, spec: RescaleSpec, access: JobAccess) -> RescaleResult:
    """Prove the topics of a specification, and place their records unless only the proof is wanted. Raises ``TaskFailed`` and ``Refused`` for what cannot be
    placed, ``Damaged`` for files that are not what they should be.
    """
    started = time.monotonic()
    proofs, before = _proofs(context, spec, access)
    if spec.prove_only:
        return RescaleResult(proofs=proofs, partitions=(), logs=(), seconds=time.monotonic() - started)
    forms, common = {proof.topic: proof.form for proof in proofs}, replace(spec, topics=())
    classes = [one for topic in spec.topics for one in _classes(topic, forms[topic.topic.name])]
    doing = Doing(name="placing records", records=sum(one.topic.rows for one in classes))
    placed = run_tasks(context, classes, lambda one: place(one, common, access), ClassPlaced, lambda one: one.topic.rows, doing)
    partitions = tuple(part for one in placed for part in one.partitions)
    # The form says that its values name partitions. That was not known while it was proven.
    buffers = [topic for topic in spec.topics if forms[topic.topic.name] is KeyForm.TIME_FIRST]
    before |= _held(context, buffers, forms, access, doing=Doing(name="digesting buffers"), check=False)
    after = _held(
        context, [_written(topic, partitions) for topic in spec.topics], forms, access, doing=Doing(name="reading back"), check=True
    )
    logs = tuple(_log(topic, proof, before[proof.topic], after[proof.topic]) for topic, proof in zip(spec.topics, proofs, strict=True))
    return RescaleResult(proofs=proofs, partitions=partitions, logs=logs, seconds=time.monotonic() - started)


def _held(
    context: Tasks, topics: Iterable[TopicToPlace], forms: Mapping[str, KeyForm | None], access: JobAccess, *, doing: Doing, check: bool
) -> dict[str, LogHeld]:
    """What the partitions of each topic hold, by the files as they are stored."""
    found, items = {topic.topic.name: NOTHING for topic in topics}, [one for topic in topics for one in _by_partition(topic)]
    doing = replace(doing, records=sum(one.rows for one in items))
    work = partial(held, forms=forms, access=access, check=check)
    for one, holds in zip(items, run_tasks(context, items, work, LogHeld, lambda one: one.rows, doing), strict=True):
        found[one.topic.name] += holds
    return found


def _by_partition(topic: TopicToPlace) -> list[TopicToPlace]:
    return [replace(topic, partitions=(part,)) for part in topic.partitions]


def _written(topic: TopicToPlace, placed: Sequence[PartitionPlaced]) -> TopicToPlace:
    """A topic as it was placed, as one to place again."""
    parts = tuple(
        PartitionToPlace(partition=one.tp.partition, files=SegmentFiles.of(piece.file for piece in one.ranges if piece.file), unread_from=0)
        for one in placed
        if one.tp.topic == topic.topic.name
    )
    primary = topic.primary and PrimarySide(old=topic.primary.new, new=topic.primary.new)
    return replace(topic, topic=replace(topic.topic, old=topic.topic.new), partitions=parts, primary=primary)


def _log(topic: TopicToPlace, proof: FormProof, before: LogHeld, after: LogHeld) -> RescaledLog:
    return RescaledLog(
        topic=proof.topic,
        old=topic.topic.old,
        new=topic.topic.new,
        form=proof.form,
        records=proof.records,
        keys_before=before.keys,
        keys_after=after.keys,
        digest_before=before.digest,
        digest_after=after.digest,
    )


def _proofs(context: Tasks, spec: RescaleSpec, access: JobAccess) -> tuple[tuple[FormProof, ...], dict[str, LogHeld]]:
    """The proof of each topic, and what it holds."""
    items, digest = [one for topic in spec.topics for one in _by_partition(topic)], not spec.prove_only
    doing = Doing(name="proving where records lie", records=sum(one.rows for one in items))
    done = run_tasks(context, items, lambda one: prove(one, access, digest=digest), PartitionProven, lambda one: one.rows, doing)
    seen, found = dict[str, list[PartitionSeen]](), {topic.topic.name: NOTHING for topic in spec.topics}
    for one in done:
        seen.setdefault(one.seen.tp.topic, []).append(one.seen)
        found[one.seen.tp.topic] += one.held
    return tuple(proven(topic.topic, topic.kind, seen.get(topic.topic.name, [])) for topic in spec.topics), found


def prove(topic: TopicToPlace, access: JobAccess, *, digest: bool) -> PartitionProven:
    """What the records of the one partition of ``topic`` obey, and with ``digest`` what it holds. Runs in a task."""
    (part,) = topic.partitions
    with workspace("records are proven to lie where their keys are") as directory:
        if digest:
            holding = _digest_of(directory, topic)
            seen = _seen(topic, part, _digested(counted(_rows(topic, part, access)), topic, None, holding))
            return PartitionProven(seen=seen, held=holding.held())
        try:
            columns = SEGMENT_SCHEMA.names if topic.topic.own else _NO_VALUES
            seen = _seen(topic, part, counted(_rows(topic, part, access, columns=columns)))
        except _ValuesNeeded:
            seen = _seen(topic, part, counted(_rows(topic, part, access)))
        return PartitionProven(seen=seen, held=NOTHING)


class _ValuesNeeded(Exception):
    """Raised where what is to be proven of rows is in their values, and these were not read."""


def _seen(topic: TopicToPlace, part: PartitionToPlace, rows: Iterator[pa.RecordBatch]) -> PartitionSeen:
    """Raises ``_ValuesNeeded``."""
    tried, failed = list(candidates(topic.topic, topic.kind)), list[FormFailed]()
    differ, keys, own = set[tuple[KeyForm, KeyForm]](), set[bytes](), dict[bytes, int]()
    records, keyless, moments = 0, 0, True
    for batch in rows:
        here = np.full(len(batch), part.partition, np.int64)
        keyed = batch.column("key").is_valid().to_numpy(zero_copy_only=False)
        records, keyless = records + len(batch), keyless + len(batch) - int(keyed.sum())
        moments = moments and timed(batch)
        for form in list(tried):
            wrong = np.flatnonzero(keyed & (places(topic, form, batch, topic.topic.old) != part.partition))
            if len(wrong):
                failed.append(FormFailed(form=form, offset=batch.column("offset")[int(wrong[0])].as_py()))
                tried.remove(form)
        if tried == [KeyForm.OWN]:
            check_own(topic, batch, here, own)
        obeyed = tried[0] if len(tried) == 1 else None
        if "value" in batch.schema.names:
            values_moved(topic, obeyed, batch, here, here)
        elif has_partitions(topic, obeyed, batch, here):
            raise _ValuesNeeded
        new = {form: places(topic, form, batch, topic.topic.new) for form in tried if len(tried) > 1}
        differ |= {(one, other) for one in new for other in new if one < other and not np.array_equal(new[one], new[other])}
        if len(keys) < MOST_KEYS:
            keys.update(batch.column("key").slice(0, 2 * MOST_KEYS).drop_null().to_pylist())
    return PartitionSeen(
        tp=TopicPartition(topic.topic.name, part.partition),
        records=records,
        keyless=keyless,
        keys=min(len(keys), MOST_KEYS),
        failed=tuple(failed),
        differ=tuple(FormPair(one=one, other=other) for one, other in sorted(differ) if one in tried and other in tried),
        timed=moments,
    )


def _rows(
    topic: TopicToPlace,
    part: PartitionToPlace,
    access: JobAccess,
    *,
    read: bool | None = None,
    columns: Sequence[str] = SEGMENT_SCHEMA.names,
) -> Iterator[pa.RecordBatch]:
    """The rows of an old partition that are placed; with ``read`` those that were read, or those that were not."""
    first = part.unread_from if read is False or not topic.topic.history else 0
    files = [file for file in part.files if file.last_offset >= first and (not read or file.first_offset < part.unread_from)]
    for batch in archived_batches(access.repository(), files, on_disk=len(topic.partitions) > _READ_AT_ONCE, columns=columns):
        offsets = batch.column("offset")
        rows = batch if offsets[0].as_py() >= first else batch.filter(pc.greater_equal(offsets, first))
        yield rows.filter(pc.less(rows.column("offset"), part.unread_from)) if read else rows


def _classes(topic: TopicToPlace, form: KeyForm | None) -> Iterator[ClassToPlace]:
    """The work of a topic, of a task each: the new partitions of a class, and the old ones that it reads."""
    wanted = topic.topic
    for number in range(wanted.classes):
        mine = replace(topic, partitions=tuple(part for part in topic.partitions if part.partition in wanted.sources(number)))
        into = range(number, wanted.new, wanted.classes)
        for at in range(0, len(into), _WRITTEN_AT_ONCE):
            yield ClassToPlace(topic=mine, form=form, into=tuple(into[at : at + _WRITTEN_AT_ONCE]))


def place(wanted: ClassToPlace, spec: RescaleSpec, access: JobAccess) -> ClassPlaced:
    """Write the new partitions of a class. Offsets number the records of the whole class, so that nobody has to know first how many go where. Memory holds a
    batch of each old partition, the disk a segment of each, and a file of each new one. Runs in a task.
    """
    topic, end, unread_from = wanted.topic, 0, 0
    numbers = np.array([part.partition for part in topic.partitions], np.int64)
    with workspace("records are placed anew") as directory:
        logs = {number: _NewLog(directory, topic.topic.name, number, spec, access) for number in wanted.into}
        for read in (True, False) if topic.topic.history else (False,):
            for batch, which in in_stream_time([counted(_rows(topic, part, access, read=read)) for part in topic.partitions]):
                old, keyless = numbers[which], batch.column("key").is_null().to_numpy(zero_copy_only=False)
                new = np.full(len(batch), NOWHERE, np.int64) if wanted.form is None else places(topic, wanted.form, batch, topic.topic.new)
                # Wherever they lie: of the class, so that it is one order.
                new = np.where(keyless, old % topic.topic.new, new)
                moved = _moved(topic, wanted.form, batch, old, new, end)
                for number, log in logs.items():
                    log.add(moved.filter(pa.array(new == number)))
                end += len(batch)
            unread_from = end if read else unread_from
        return ClassPlaced(partitions=tuple(log.closed(end, unread_from) for log in logs.values()))


def _moved(topic: TopicToPlace, form: KeyForm | None, batch: pa.RecordBatch, old: Numbers, new: Numbers, first: int) -> pa.RecordBatch:
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns |= {"offset": pa.array(np.arange(first, first + len(batch))), "value": values_moved(topic, form, batch, old, new)}
    return pa.record_batch(list(columns.values()), schema=batch.schema)


class _NewLog:
    """A new partition as it is written: rows wait in a file on this disk until they are a segment."""

    def __init__(self, directory: Path, topic: str, number: int, spec: RescaleSpec, access: JobAccess) -> None:
        self._tp, self._spec, self._access = TopicPartition(topic, number), spec, access
        self._waiting, self._segment = directory / f"{number}.arrow", directory / f"{number}.parquet"
        self._ranges: list[CopiedRange] = []
        self._rows = 0
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        while len(batch):
            piece = batch.slice(0, self._spec.max_records - self._rows)
            if self._writer is None:
                self._writer = pa.ipc.new_stream(self._waiting.open("wb"), piece.schema)
            self._writer.write_batch(piece)
            self._rows += len(piece)
            batch = batch.slice(len(piece))
            if self._rows == self._spec.max_records:
                self._store()

    def closed(self, end: int, unread_from: int) -> PartitionPlaced:
        """The partition with all of its rows; its offsets end where those of its class do."""
        self._store()
        if self._end < end:
            self._ranges.append(CopiedRange(start=self._end, end=end, file=None))
        return PartitionPlaced(tp=self._tp, ranges=tuple(self._ranges), end=end, unread_from=unread_from)

    @property
    def _end(self) -> int:
        return self._ranges[-1].end if self._ranges else 0

    def _store(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        self._writer, self._rows = None, 0
        with pa.memory_map(str(self._waiting)) as source, pa.ipc.open_stream(source) as rows:
            spec, repository = self._spec, self._access.repository()
            copied = stored_segment(repository, spec.application_id, self._tp, self._end, rows, self._segment, compression_level=_LEVEL)
        if copied is None:
            raise Damaged(f"no row of {self._tp} was written", next_step="run the rescale again")
        self._ranges.append(copied)


def held(topic: TopicToPlace, forms: Mapping[str, KeyForm | None], access: JobAccess, *, check: bool) -> LogHeld:
    """What the one partition of ``topic`` holds. With ``check`` each record lies where its key puts it, and names the partitions that it should. Runs in a
    task.
    """
    (part,), form = topic.partitions, forms[topic.topic.name]
    with workspace("records are read back") as directory:
        digest = _digest_of(directory, topic)
        for batch in _digested(counted(_rows(topic, part, access)), topic, form, digest):
            if check:
                _check_placed(topic, form, batch, part.partition)
        return digest.held()


def _digest_of(directory: Path, topic: TopicToPlace) -> LogDigest:
    # What is read again is read in its order. What a changelog leads to is the newest record of each key.
    return LogDigest(directory, topic.rows, versions=topic.kind is StoreKind.VERSIONED, ordered=topic.kind is None)


def _digested(rows: Iterator[pa.RecordBatch], topic: TopicToPlace, form: KeyForm | None, digest: LogDigest) -> Iterator[pa.RecordBatch]:
    """The ``rows`` of a log as they are, each added to ``digest``. Raises ``Damaged`` where they do not come in the order of offsets."""
    last = -1
    for batch in rows:
        offsets = batch.column("offset").to_numpy()
        if len(batch) and (offsets[0] <= last or (np.diff(offsets) <= 0).any()):
            raise Damaged(
                f"records of {topic.topic.name} are not in the order of offsets", next_step="verify the repository: nothing was published"
            )
        last = offsets[-1] if len(batch) else last
        digest.add(batch, without_partitions(topic, form, batch))
        yield batch


def _check_placed(topic: TopicToPlace, form: KeyForm | None, batch: pa.RecordBatch, partition: int) -> None:
    here = np.full(len(batch), partition, np.int64)
    values_moved(topic, form, batch, here, here)
    keyed = batch.column("key").is_valid().to_numpy(zero_copy_only=False)
    if form is not None and (keyed & (places(topic, form, batch, topic.topic.new) != partition)).any():
        raise Damaged(
            f"new records of partition {partition} of {topic.topic.name} do not lie where their keys put them",
            next_step="nothing was published; run the rescale again",
            topic=topic.topic.name,
            partition=partition,
        )
