"""What a comparison of the outputs of two applications shares with a cut-over. Waiting until one of them has processed its input up to given ends, and
everything that this caused in its repartition topics. And the reports of comparisons: an append log in the repository of the application that was asked for,
of which only the newest entries are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from streams_recovery.core.errors import ApplicationNotReady, RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.outputs.comparison import OutputsReport
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.rollout.cutover import counts_text
from streams_recovery.core.waiting import while_falling
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import repartition_partitions
from streams_recovery.operations.lag import measure
from streams_recovery.operations.rollout.discover import between, offsets_of, running, unread
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository

LOGGER = logger("streams_recovery.operations.rollout.compared")

KEPT: Final = 20


def keep(recovery: RecoveryContext, report: OutputsReport) -> None:
    """Store one, and remove old ones as far as that is allowed. What the same run has found before is not stored again by a step that is repeated."""
    log = AppendLog(recovery.repository, recovery.layout.outputs_compared, OutputsReport)
    if any(replace(one, at=report.at) == report for one in newest(recovery.repository, recovery.layout)):
        return
    log.append(report, whole=False)
    try:
        log.prune(KEPT, whole=False)
    except RecoveryError as error:
        LOGGER.warning("old reports of comparisons stay: %s", error.reason)


def newest(repository: Repository, layout: Layout) -> tuple[OutputsReport, ...]:
    """The newest ones that can be read, the last one first. Raises ``RepositoryUnavailable``."""
    return tuple(islice(AppendLog(repository, layout.outputs_compared, OutputsReport).readable_back(whole=False), KEPT))


def await_processed(recovery: RecoveryContext, ends: Mapping[TopicPartition, int], *, patience: float) -> None:
    """Return when the application has processed every input record below ``ends``, and all that these caused: when all their results are written. Raises
    ``ApplicationNotReady`` when it is down before that, or has processed nothing for ``patience`` seconds.
    """

    def left() -> dict[TopicPartition, int]:
        committed = offsets_of(recovery, ends)
        return between(recovery, {tp: (committed[tp], end) for tp, end in ends.items()})

    runs = running(recovery)
    if runs:
        what = f"{recovery.application_id} to process the input that there is now"
        while_falling(lambda: sum(left().values()), patience=patience, what=what)
    if unprocessed := left():
        why = f"and processed nothing for {patience:.0f} s" if runs else "and it is down"
        raise ApplicationNotReady(
            f"{recovery.application_id} has not processed its input, {why}: {counts_text(unprocessed)}",
            next_step="look at its instances' logs, or start it; then compare again",
            unprocessed=unprocessed,
        )
    if runs:
        await_repartition(recovery, patience)
    elif tail := unread(recovery):
        raise ApplicationNotReady(
            f"{recovery.application_id} is down with unread records in repartition topics: {counts_text(tail)}",
            next_step="start it, and run this again",
            unprocessed=tail,
        )


def await_repartition(recovery: RecoveryContext, patience: float) -> None:
    """Return when everything is processed that the application had in its repartition topics, and all that this caused. Raises ``ApplicationNotReady``."""
    # What input causes may go through several repartition topics one after the other: in each round one more is sure to be read.
    for _ in {tp.topic for tp in repartition_partitions(recovery)}:
        _read_to_ends(recovery, patience)


def _read_to_ends(recovery: RecoveryContext, patience: float) -> None:
    partitions = repartition_partitions(recovery)
    # Not the last stable offsets: the marker of a transaction reaches a log a little after the offsets that it commits can be seen.
    ends = recovery.cluster.high_watermarks(partitions)

    def left() -> int:
        lags = measure(recovery, partitions)
        return sum(between(recovery, {tp: (lags[tp].position, end) for tp, end in ends.items()}).values())

    if unprocessed := while_falling(left, patience=patience, what=f"records of repartition topics of {recovery.application_id}"):
        raise ApplicationNotReady(
            f"{recovery.application_id} has {unprocessed} records of repartition topics left, and processed nothing for {patience:.0f} s",
            next_step="look at its instances' logs, then run this again",
        )
