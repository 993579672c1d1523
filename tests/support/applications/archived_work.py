"""Work of an application without code beside an archiver, and what an archive and a log have of it."""

from __future__ import annotations

from streams_recovery.core.archive.log import Archive
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.archiver import Archiver
from tests.support.applications.small import Small
from tests.support.applications.topic_records import processed, produce
from tests.support.examples.rows import rows_in
from tests.support.kafka.records import read


def work(small: Small, number: int) -> None:
    """One more record of the input is processed, which changes one key and leaves one record unread."""
    produce(small.recovery, small.input, 1)
    key = b"%d" % number
    processed(
        small.recovery,
        {small.changelog: [(b"k0", key), (key, key)], small.tail: [(key, key)], small.output: [(key, key)]},
        {small.input: 5 + number, small.tail: 1},
    )


def cut_at(beside: Archiver, small: Small) -> Archive:
    """The archive with a cut that has all that is in the changelog and the repartition topic by now."""
    ends = small.recovery.cluster.high_watermarks([small.changelog, small.tail])
    return beside.once(lambda now: now.cut is not None and now.cut.ends.items() >= ends.items())


def read_keys(recovery: RecoveryContext, tp: TopicPartition) -> list[object]:
    """The keys of all records of a log."""
    return [row[1] for row in rows_in(read(recovery.connection, tp, 0, recovery.cluster.high_watermarks([tp])[tp]))]
