"""Backing up: ranges become segments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from spark_jobs.access import JobAccess
from spark_jobs.transforms.counting import counted
from spark_jobs.transforms.one_process import Tasks
from spark_jobs.transforms.progress import Doing
from spark_jobs.transforms.task_runner import attempt_name, spread_sharing
from streams_recovery.core.jobs.spec import BackupResult, BackupSpec, RangeOutcome, RangeToCopy
from streams_recovery.core.repository.layout import Layout


def copy_ranges(context: Tasks, spec: BackupSpec, access: JobAccess) -> BackupResult:
    """Copy every range. Results are in the order of the spec."""
    started = time.monotonic()

    # Without its ranges: this goes to every task.
    common = replace(spec, ranges=())

    def opened(ranges: Sequence[RangeToCopy]) -> AbstractContextManager[Callable[[RangeToCopy], Callable[[], RangeOutcome]]]:
        return copying(ranges, common, access)

    doing = Doing(name="copying", records=sum(wanted.size_hint for wanted in spec.ranges))
    outcomes = spread_sharing(context, spec.ranges, opened, RangeOutcome, lambda wanted: wanted.size_hint, doing)
    return BackupResult(
        ranges=tuple(piece for outcome in outcomes for piece in outcome.copied),
        lost=tuple(piece for outcome in outcomes for piece in outcome.lost),
        seconds=time.monotonic() - started,
    )


@contextmanager
def copying(
    ranges: Sequence[RangeToCopy], spec: BackupSpec, access: JobAccess
) -> Iterator[Callable[[RangeToCopy], Callable[[], RangeOutcome]]]:
    """Copies each of ``ranges``, asked in this order, with the consumers and the repository of one task. Runs in the task."""
    # Imported in the task: the driver needs no Kafka client.
    from streams_recovery.kafka.range_copy import announce, copy_what_is_left, one_behind  # noqa: PLC0415
    from streams_recovery.kafka.reader import Consumers  # noqa: PLC0415

    layout, repository = Layout(spec.application_id), access.repository()
    key = repository.data_keys.writing(spec.application_id)
    with Consumers(access.cluster) as consumers, one_behind() as storing:
        announce(consumers, ranges)

        def copy(wanted: RangeToCopy) -> Callable[[], RangeOutcome]:
            return copy_what_is_left(
                consumers,
                repository,
                layout,
                wanted,
                compression_level=spec.compression_level,
                attempt=attempt_name(spec.run),
                key=key,
                seen=counted,
                storing=storing,
            )

        yield copy
