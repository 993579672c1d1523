"""Both digests of a load: of the archive as it was read, and of the logs as other tasks found them. On a real broker, in one session."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.transforms.load import load_partitions
from streams_recovery.core.jobs.spec import PartitionToLoad, RestoreSpec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.segment_files import SegmentFiles
from tests.support.examples.rows import SHAPES, digest_of
from tests.support.kafka.records import write
from tests.support.spark.jobs import APPLICATION, BASE, backup

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_only_whole_logs_are_read_back_and_what_is_missing_goes_behind_the_first_rows(spark, access, connection, topics):
    source, target = TopicPartition(topics(), 0), TopicPartition(topics(), 0)
    write(connection, source, BASE)
    files = tuple(done.copied.file for done in backup(spark, access, (source, 0, 2), (source, 2, 5)))
    first = PartitionToLoad(tp=TopicPartition(target.topic, 0), first_offset=0, files=SegmentFiles.of(files), limit=3)
    begun = load_partitions(spark, RestoreSpec(application_id=APPLICATION, partitions=(first,)), access)
    assert (begun.partitions[0].rows, begun.partitions[0].digest, begun.read) == (3, digest_of(BASE[:3]), ())
    whole = load_partitions(spark, RestoreSpec(application_id=APPLICATION, partitions=(replace(first, present=3, limit=None),)), access)
    assert (whole.partitions[0].digest, whole.read[0].digest, whole.read[0].rows) == (digest_of(BASE), digest_of(BASE), 5)


@pytest.mark.parametrize("present", [0, 3, 5])
def test_both_digests_have_every_row_with_its_headers_in_whatever_order_partitions_are_loaded(spark, access, connection, topics, present):
    source, small, name = TopicPartition(topics(), 0), TopicPartition(topics(), 0), topics(partitions=2)
    write(connection, source, SHAPES)
    write(connection, small, BASE[:2])
    long, short = (done.copied.file for done in backup(spark, access, (source, 0, len(SHAPES)), (small, 0, 2)))
    if present:
        write(connection, TopicPartition(name, 1), SHAPES[:present])
    loads = tuple(
        PartitionToLoad(tp=TopicPartition(name, at), first_offset=0, files=SegmentFiles.of((file,)), present=there)
        for at, file, there in ((0, short, 0), (1, long, present))
    )
    result = load_partitions(spark, RestoreSpec(application_id=APPLICATION, partitions=loads), access)
    expected = [digest_of(BASE[:2]), digest_of(SHAPES)]
    assert [(one.tp.partition, one.digest) for one in result.partitions] == list(enumerate(expected))
    assert [(one.tp.partition, one.digest) for one in result.read] == list(enumerate(expected))
