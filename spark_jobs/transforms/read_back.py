"""Reading back a load: the topics as tasks find them that have written nothing, with clients of their own, up to the ends that the broker tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.access import JobAccess
from spark_jobs.transforms.counting import counted
from spark_jobs.transforms.one_process import Tasks
from spark_jobs.transforms.progress import Doing
from spark_jobs.transforms.task_runner import run_tasks
from streams_recovery.core.jobs.spec import PartitionRead, PartitionToLoad
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.work import OffsetRange

if TYPE_CHECKING:
    from streams_recovery.kafka.connection import KafkaConnection
    from streams_recovery.kafka.reader import Consumers
    from streams_recovery.segments.schema import RowDigest


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShare:
    """The work of one task: these logs, one after the other."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRead:
    """The logs that one task read."""

    partitions: tuple[PartitionRead, ...]


def read_back(
    context: Tasks, shares: Sequence[Sequence[PartitionToLoad]], access: JobAccess, doing: Doing | None = None
) -> list[PartitionRead]:
    """Every log that is ``whole``, those of a share by a task of their own. Call it when no task is left that writes to one of them."""
    wanted = [ReadShare(partitions=tuple(one.tp for one in mine)) for share in shares if (mine := whole(share))]

    def work(share: ReadShare) -> ShareRead:
        return read_share(share, access)

    return [one for done in run_tasks(context, wanted, work, ShareRead, doing=doing or reading(shares)) for one in done.partitions]


def reading(shares: Sequence[Sequence[PartitionToLoad]]) -> Doing:
    """The phase of reading all of these back, in however many jobs."""
    wanted = [mine for share in shares if (mine := whole(share))]
    return Doing(name="reading back", records=sum(one.rows for mine in wanted for one in mine), tasks=len(wanted))


def whole(partitions: Sequence[PartitionToLoad]) -> list[PartitionToLoad]:
    """The partitions of which not only the first rows were loaded."""
    return [wanted for wanted in partitions if wanted.limit is None]


def read_share(share: ReadShare, access: JobAccess) -> ShareRead:
    """The logs of one task, from start to end. Both are asked of the broker here: what the load believes it wrote counts for nothing. Runs in the task."""
    from streams_recovery.kafka.cluster import KafkaCluster  # noqa: PLC0415  # the driver needs no Kafka client
    from streams_recovery.kafka.reader import Consumers  # noqa: PLC0415

    found = []
    with KafkaCluster(access.cluster) as cluster, Consumers(access.cluster, cluster=cluster) as consumers:
        starts, ends = cluster.log_starts(share.partitions), cluster.high_watermarks(share.partitions)
        topics = cluster.describe_topics({tp.topic for tp in share.partitions})
        consumers.announce(OffsetRange(tp, starts[tp], ends[tp]) for tp in share.partitions)
        for tp in share.partitions:
            digest = digest_of_range(consumers, tp, starts[tp], ends[tp])
            found.append(
                PartitionRead(
                    tp=tp,
                    topic_id=topics[tp.topic].topic_id,
                    start=starts[tp],
                    end=ends[tp],
                    rows=digest.rows,
                    digest=digest.hexdigest(),
                )
            )
    return ShareRead(partitions=tuple(found))


def digest_of_range(source: KafkaConnection | Consumers, tp: TopicPartition, start: int, end: int) -> RowDigest:
    """The digest of the records ``[start, end)`` of one log. ``source`` is as for ``RangeReader``."""
    from streams_recovery.kafka.reader import RangeReader  # noqa: PLC0415  # as above
    from streams_recovery.segments.schema import RowDigest  # noqa: PLC0415

    digest = RowDigest()
    with RangeReader(source, tp, start, end) as reader:
        for batch in counted(iter(reader)):
            digest.update(batch)
    return digest
