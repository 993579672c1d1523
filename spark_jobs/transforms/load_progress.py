"""Going on behind what an interrupted load left: only when it is, record by record, the beginning of what belongs there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.transforms.read_back import digest_of_range
from streams_recovery.core.errors import PrefixDiffers
from streams_recovery.core.jobs.spec import PartitionToLoad
from streams_recovery.core.work import OffsetRange

if TYPE_CHECKING:
    from streams_recovery.kafka.connection import KafkaConnection
    from streams_recovery.kafka.reader import Consumers


def behind_present(
    batches: Iterator[pa.RecordBatch], wanted: PartitionToLoad, source: KafkaConnection | Consumers
) -> Iterator[pa.RecordBatch]:
    """The rows of ``batches`` behind the first ``wanted.present``, after those were compared with the partition. ``source`` is as for ``RangeReader``.
    Raises ``PrefixDiffers`` before the first row is handed out.
    """
    # Shared with the Kafka ring, whose client a driver does not have.
    from streams_recovery.segments.schema import RowDigest  # noqa: PLC0415

    archived, left, rest = RowDigest(), wanted.present, None
    while left:
        batch = next(batches, None)
        if batch is None:
            raise _differs(wanted, f"the savepoint has only {archived.rows} rows for it")
        archived.update(batch.slice(0, left))
        rest = batch.slice(left)
        left -= min(left, len(batch))
    if wanted.present:
        _compare(archived.hexdigest(), wanted, source)
    if rest is not None and len(rest):
        yield rest
    yield from batches


def present(wanted: PartitionToLoad) -> OffsetRange:
    """The offsets of the records that an interrupted load left."""
    return OffsetRange(wanted.tp, wanted.first_offset, wanted.first_offset + wanted.present)


def _compare(archived: str, wanted: PartitionToLoad, source: KafkaConnection | Consumers) -> None:
    found = digest_of_range(source, *present(wanted))
    if found.rows != wanted.present or found.hexdigest() != archived:
        raise _differs(wanted, f"{found.rows} records with digest {found.hexdigest()[:12]} are there, the savepoint's have {archived[:12]}")


def _differs(wanted: PartitionToLoad, how: str) -> PrefixDiffers:
    return PrefixDiffers(
        f"{wanted.tp}: what an interrupted load left at offsets {wanted.first_offset} to "
        f"{wanted.first_offset + wanted.present - 1} is not the beginning of what belongs there: {how}",
        next_step="run the step again: a restore creates the topic again and loads it from the beginning, unless it is an input or a global; where "
        "records were appended, or in an input, find out who else has written there",
        topic=wanted.tp.topic,
        partition=wanted.tp.partition,
        topic_id=wanted.topic_id,
        first=wanted.first_offset,
        last=wanted.first_offset + wanted.present - 1,
    )
