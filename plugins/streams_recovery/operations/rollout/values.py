"""Values that the steps of a cut-over hand to each other, and what a cut-over shares with a comparison of outputs.

Shared are the wait until an application has processed its input up to given ends, with everything that this caused in its repartition topics, and the log of
reports of comparisons, which keeps only the newest entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Final

from streams_recovery.core.errors import ApplicationNotReady, RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.forms import Form
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.outputs.comparison import OutputsReport
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.restore.request import REASON
from streams_recovery.core.rollout.cutover import RESTORE_FIRST, STEP, CutoverStep, counts_text
from streams_recovery.core.waiting import while_falling
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import repartition_partitions
from streams_recovery.operations.lag import measure
from streams_recovery.operations.renewed_lock import HeldLock
from streams_recovery.operations.rollout.discover import between, offsets_of, running, unread
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository

LOGGER = logger("streams_recovery.operations.rollout.values")
KEPT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverRequest:
    """A request by a person. With ``restore_first`` a way
    back leaves the old application down.
    """

    FORM = Form()
    step: Annotated[CutoverStep, STEP]
    reason: Annotated[str, REASON]
    restore_first: Annotated[bool, RESTORE_FIRST] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverRun:
    """One run of a cut-over or roll-back."""

    step: CutoverStep
    run: str
    requested_by: str
    reason: str
    started_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverTicket(CutoverRun):
    """A cut-over under way, with the locks of both. ``running`` are the application ids of those that ran when it was opened."""

    plan_hash: str
    old: HeldLock
    clone: HeldLock
    running: tuple[str, ...]
    restore_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedForCutover:
    """The applications that were proven down, by id: True for one that closed cleanly."""

    closed_cleanly: dict[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsTransferred:
    """The application that writes the outputs from now on, and what comes twice by it: input records by partition, and records in repartition topics."""

    live: str
    again: dict[TopicPartition, int]
    tail: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStarted:
    """The application that writes the outputs, started. ``ends`` are those of its inputs right before."""

    application_id: str
    instances: tuple[str, ...]
    ends: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverReport(CutoverRun):
    """A cut-over that is done. ``records_again`` is the sum of ``again``; ``offsets`` are what both had committed when the outputs were transferred."""

    live: str
    stopped: str
    closed_cleanly: dict[str, bool]
    again: dict[TopicPartition, int]
    records_again: int
    tail: dict[TopicPartition, int]
    offsets: dict[str, dict[TopicPartition, int]]
    finished_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAs:
    """The end of a cut-over that did not finish: the role of each application, those that were started again, what to do next, and the commands for that."""

    roles: dict[str, Role]
    started: tuple[str, ...]
    next_step: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtBack:
    """The application that is live at the end of an upgrade. ``started`` are the instances of the old one that run again, empty when the clone took over."""

    live: str
    started: tuple[str, ...]


def keep(recovery: RecoveryContext, report: OutputsReport) -> None:
    """Store a report of a comparison, and remove old ones as far as allowed. A repeated step does not store its run's report again."""
    log = AppendLog(recovery.repository, recovery.layout.outputs_compared, OutputsReport)
    if any(replace(one, at=report.at) == report for one in newest(recovery.repository, recovery.layout)):
        return
    log.append(report, whole=False)
    try:
        log.prune(KEPT, whole=False)
    except RecoveryError as error:
        LOGGER.warning("old reports of comparisons stay: %s", error.reason)


def newest(repository: Repository, layout: Layout) -> tuple[OutputsReport, ...]:
    """The newest reports of comparisons that can be read, the last one first. Raises ``RepositoryUnavailable``."""
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
