"""Restoring: segments become records, one writer a partition, in order."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.access import JobAccess
from spark_jobs.fencing import awake
from spark_jobs.transforms.counting import counted
from spark_jobs.transforms.load_progress import behind_present, present
from spark_jobs.transforms.one_process import OneProcess, Tasks, running_task
from spark_jobs.transforms.progress import Doing
from spark_jobs.transforms.read_back import read_back, reading, whole
from spark_jobs.transforms.segment_reader import chosen_batches, first_rows
from spark_jobs.transforms.task_runner import run_followed, run_tasks
from streams_recovery.core.errors import Refused, TransientError
from streams_recovery.core.jobs.spec import PartitionLoaded, PartitionRead, PartitionToLoad, RestoreResult, RestoreSpec
from streams_recovery.core.waiting import Pace, RateLimits
from streams_recovery.core.work import TASKS_A_SLOT, bundled, packed

if TYPE_CHECKING:
    from streams_recovery.kafka.reader import Consumers
    from streams_recovery.kafka.writer import Producers
    from streams_recovery.segments.schema import RowDigest


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The work of one task: these partitions, one after the other, no faster than this."""

    partitions: tuple[PartitionToLoad, ...]
    throttle: RateLimits | None
    stall_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLoaded:
    """The partitions that one task loaded."""

    partitions: tuple[PartitionLoaded, ...]


def load_partitions(context: Tasks, spec: RestoreSpec, access: JobAccess) -> RestoreResult:
    """Load every partition, the biggest first, and read all of them back, each when the task has ended that wrote it. Refuses before the first row when
    Spark would retry a task: whether rows of an attempt are there, and whether it is dead, is for the orchestrator to find out before the next one
    begins.
    """
    started = time.monotonic()
    check_single_attempt(context)
    wanted, loaded = shares(spec, context.defaultParallelism), [started]
    doing = Doing(name="loading", records=sum(one.rows for one in spec.partitions))
    afterwards = reading([share.partitions for share in wanted])

    def load(numbered: Sequence[tuple[int, Share]], ended: Callable[[int], None]) -> list[ShareLoaded]:
        def work(item: tuple[int, Share]) -> ShareLoaded:
            done = load_share(item[1], access)
            ended(item[0])
            return done

        found = run_tasks(context, numbered, work, ShareLoaded, doing=doing)
        loaded.append(time.monotonic())
        return found

    def follow(ended: Sequence[Share]) -> list[PartitionRead]:
        return read_back(context, [share.partitions for share in ended], access, afterwards) if spec.read_back else []

    done, read = run_followed(context, wanted, load, follow)
    written, found = {one.tp: one for share in done for one in share.partitions}, {one.tp: one for one in read}
    return RestoreResult(
        partitions=tuple(written[one.tp] for one in spec.partitions),
        seconds=loaded[-1] - started,
        read=tuple(found[one.tp] for one in whole(spec.partitions)) if spec.read_back else (),
        read_seconds=time.monotonic() - loaded[-1],
    )


def check_single_attempt(context: Tasks) -> None:
    """Raises ``Refused`` when Spark may start a task twice by itself."""
    if isinstance(context, OneProcess):
        return
    attempts = attempts_allowed(str(context.master), context.getConf().get("spark.task.maxFailures", "4") or "4")
    if attempts != "1":
        raise Refused(
            f"Spark may start a task up to {attempts} times: a second attempt would write behind the rows of the first",
            next_step="set spark.task.maxFailures=1, and name no number of failures in the address of a local master",
        )


def attempts_allowed(master: str, max_failures: str) -> str:
    """The number of times that Spark starts a task at most. A local master goes by its address alone: once, or as often as ``local[2,4]`` says."""
    local = re.fullmatch(r"local(\[[^,\]]+(,\s*(?P<failures>\d+)\s*)?\])?", master)
    return (local["failures"] or "1") if local else max_failures


def check_first_attempt() -> None:
    """Raises ``TransientError`` in a task that Spark has started before. A task of an executor that is lost with its worker, is decommissioned or taken away
    is started again whatever ``spark.task.maxFailures`` says, and the one before may go on writing: a worker that nobody reaches may still reach Kafka.
    """
    task = running_task()
    if task is not None and task.attemptNumber():
        raise TransientError(
            "Spark lost an executor and started its task again: what wrote there may be alive, so nothing is written beside it",
            next_step="see that the executor that was lost is gone, then run the step again, or resume the restore",
            attempt=task.attemptNumber(),
        )


def shares(spec: RestoreSpec, slots: int) -> list[Share]:
    """The work of every task, the biggest first; small partitions share one. Under a throttle there are no more tasks than ``slots``, each with the
    part of the limit that fits its part of the work, so that however many of them run at once the limit holds, and they end together.
    """
    limit = spec.throttle
    sizes = [wanted.payload_bytes for wanted in spec.partitions]
    groups = packed(sizes, slots) if limit else bundled([_rows_left(wanted) for wanted in spec.partitions], least=TASKS_A_SLOT * slots)
    records, payload = sum(map(_rows_left, spec.partitions)), sum(map(_bytes_left, spec.partitions))
    made = []
    for group in groups:
        parts = tuple(spec.partitions[at] for at in group)
        share = limit and limit.share(_part(sum(map(_rows_left, parts)), records), _part(sum(map(_bytes_left, parts)), payload))
        made.append(Share(partitions=parts, throttle=share, stall_seconds=spec.stall_seconds))
    return made


def _rows_left(wanted: PartitionToLoad) -> int:
    return max(0, wanted.rows - wanted.present)


def _bytes_left(wanted: PartitionToLoad) -> int:
    return wanted.payload_bytes * _rows_left(wanted) // max(1, wanted.rows)


def _part(of: int, whole: int) -> float:
    # Who has nothing to write needs no share, but a rate of 0 would be no rate.
    return max(of, 1) / max(whole, 1)


def load_share(share: Share, access: JobAccess) -> ShareLoaded:
    """Load the partitions of one task. Runs in the task."""
    from streams_recovery.kafka.reader import Consumers  # noqa: PLC0415  # the driver needs no Kafka client
    from streams_recovery.kafka.writer import Producers  # noqa: PLC0415

    check_first_attempt()
    pace = Pace(share.throttle) if share.throttle else None
    with awake(), Producers(access.cluster) as producers, Consumers(access.cluster, cluster=producers.cluster) as consumers:
        consumers.announce(present(wanted) for wanted in share.partitions)
        loaded = [load_partition(wanted, access, (producers, consumers), pace, share.stall_seconds) for wanted in share.partitions]
    return ShareLoaded(partitions=tuple(loaded))


def load_partition(
    wanted: PartitionToLoad, access: JobAccess, clients: tuple[Producers, Consumers], pace: Pace | None = None, stall_seconds: float = 120.0
) -> PartitionLoaded:
    """Write the files of one partition, or what is missing of them, with the clients of one task. Runs in the task."""
    from streams_recovery.kafka.range_copy import worker_name  # noqa: PLC0415  # as above
    from streams_recovery.kafka.writer import PartitionWriter  # noqa: PLC0415
    from streams_recovery.segments.schema import RowDigest  # noqa: PLC0415

    producers, consumers = clients
    tp = wanted.tp
    behind, archived = wanted.first_offset + wanted.present, RowDigest()
    with PartitionWriter(producers, tp, expected_end=behind, stall_seconds=stall_seconds) as writer:
        chosen = chosen_batches(access.repository(), wanted.files, wanted.cut)
        from_archive = digested(chosen if wanted.limit is None else first_rows(chosen, wanted.limit), archived)
        batches = behind_present(from_archive, wanted, consumers)
        for batch in counted(paced(batches, pace) if pace else batches):
            writer.write(batch)
        written = writer.finish()
    rows = wanted.present + written.rows
    return PartitionLoaded(
        tp=wanted.tp,
        rows=rows,
        acknowledged_first=wanted.first_offset if rows else None,
        acknowledged_last=wanted.first_offset + rows - 1 if rows else None,
        worker=worker_name(),
        archived_rows=archived.rows,
        digest=archived.hexdigest(),
        present=wanted.present,
    )


def digested(batches: Iterator[pa.RecordBatch], digest: RowDigest) -> Iterator[pa.RecordBatch]:
    """The ``batches`` as they are, each added to ``digest`` before it is handed out: as the archive has them, whatever becomes of them."""
    for batch in batches:
        digest.update(batch)
        yield batch


def paced(batches: Iterator[pa.RecordBatch], pace: Pace) -> Iterator[pa.RecordBatch]:
    """The rows of ``batches`` in small steps, each handed out when it may go."""
    from streams_recovery.segments.schema import payload_bytes  # noqa: PLC0415  # the driver needs no Kafka client

    for batch in batches:
        step = pace.rows_at_once(len(batch), payload_bytes(batch))
        for at in range(0, len(batch), step):
            piece = batch.slice(at, step)
            time.sleep(pace.wait(len(piece), payload_bytes(piece)))
            yield piece
