"""What jobs are told."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.jobs.spec import CutBy, PartitionToLoad, RowCut
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.segment_file import SegmentFiles
from tests.support.examples.savepoints import segment


def test_a_partition_counts_the_bytes_of_the_rows_that_are_written() -> None:
    file = segment(0, 10, list(range(10))).file
    assert file is not None
    whole = PartitionToLoad(tp=TopicPartition("t", 0), first_offset=0, files=SegmentFiles.of((file,)))
    cut = replace(whole, cut=RowCut(by=CutBy.TIMESTAMP, moment=5, first_later=None, rows=5, late=0))
    assert [(one.rows, one.payload_bytes) for one in (whole, cut, replace(cut, limit=2))] == [(10, 100), (5, 50), (2, 20)]
    assert replace(whole, files=SegmentFiles.of(())).payload_bytes == 0
