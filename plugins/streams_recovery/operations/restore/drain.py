"""The end of a restore to a moment: the application has processed all of its input, and everything that this caused, and is stopped there."""

from __future__ import annotations

import time
from collections.abc import Mapping

from streams_recovery.core.errors import ApplicationNotReady, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.lag import Lag
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.parts.interval import deferred
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.waiting import while_falling
from streams_recovery.operations.bring_down import bring_down
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import repartition_partitions
from streams_recovery.operations.lag import RecordLag
from streams_recovery.operations.renewed_lock import renewed_lock, require_lock
from streams_recovery.operations.restore.open import guarded, stored_plan
from streams_recovery.operations.restore.values import EndsSummary, RestoreTicket

_NAMED = 10


def drain(recovery: RecoveryContext, ticket: RestoreTicket) -> EndsSummary:
    """Wait until inputs and repartition topics are read to their ends, then stop every instance. Repeating it is harmless.

    As long as they are worked off there is no limit. Raises ``Refused`` for a restore that goes on behind the savepoint, and ``ApplicationNotReady``
    naming what was not read when nothing had moved for the configured time, or when the application was stopped from outside before.
    """
    planned = stored_plan(recovery, ticket)
    guarded(recovery, ticket, at_least=whole_input(planned), before=Phase.CLOSED)
    if planned.part.archive is None:
        raise Refused(f"restore {ticket.restore_id} goes on behind its savepoint", next_step="let the application run")
    return drain_to(recovery, ticket, planned, {})


def whole_input(planned: RestorePlan) -> Phase:
    """The phase from which on the application has been given all of its input."""
    return Phase.INPUT_COMPLETE if deferred(planned) else Phase.RECOVERED


def drain_to(recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan, limits: Mapping[TopicPartition, int]) -> EndsSummary:
    """Wait until inputs and repartition topics are read to their ends, those with a limit up to that, and stop every instance."""
    began = time.monotonic()
    if not_gone(recovery):
        with renewed_lock(recovery, ticket):
            patience, lag = float(recovery.config.restore.catch_up_timeout_seconds), RecordLag(recovery)
            what = f"{recovery.application_id} to process all of its input, offsets"
            while_falling(lambda: sum(one.left for one in _unread(recovery, planned, limits, lag).values()), patience=patience, what=what)
        require_read(recovery, planned, limits)
    report = bring_down(recovery, confirm=lambda: require_lock(recovery, ticket))
    # Once more, now that nothing moves.
    partitions = require_read(recovery, planned, limits)
    return EndsSummary(partitions=partitions, closed_cleanly=report.clean, seconds=round(time.monotonic() - began, 1))


def require_read(recovery: RecoveryContext, planned: RestorePlan, limits: Mapping[TopicPartition, int]) -> int:
    """Raise ``ApplicationNotReady`` naming what is not read; return how many partitions are."""
    left = [f"{tp} by {lag}" for tp, lag in _unread(recovery, planned, limits, RecordLag(recovery), down=True).items()]
    if left:
        raise ApplicationNotReady(
            f"{recovery.application_id} has not processed all of its input, it is behind on {', '.join(left[:_NAMED])}",
            next_step="look at the instances' logs, start those that are down, and run this step again",
            left=left,
        )
    return len(_read_by(recovery, planned))


def _unread(
    recovery: RecoveryContext, planned: RestorePlan, limits: Mapping[TopicPartition, int], lag: RecordLag, *, down: bool = False
) -> dict[TopicPartition, Lag]:
    """Partitions with records that are not read, and how far the application is behind there. Committed offsets are read before ends: the results of the input
    below them are in the logs by then. So no work is left behind ends that are reached, however many repartition topics follow each other.
    """
    partitions = _read_by(recovery, planned)
    committed = recovery.groups.committed(recovery.application_id, partitions)
    ends = recovery.cluster.high_watermarks(partitions)
    ends |= {tp: min(limit, ends[tp]) for tp, limit in limits.items() if tp in ends}
    return lag.look(ends, committed, down=down)


def inputs_of(recovery: RecoveryContext, planned: RestorePlan) -> list[TopicPartition]:
    """The inputs that the plan sets offsets of, and those that keep one."""
    set_now = [item.tp for item in planned.offsets if recovery.config.internal_role(item.tp.topic) is None]
    return [*set_now, *(tp for tp in planned.offsets_kept if tp in planned.observed.offsets_before)]


def awaited_inputs(recovery: RecoveryContext, planned: RestorePlan) -> list[TopicPartition]:
    """The inputs that a started application is waited for to read. An input that only committed offsets show may be read no more, as when another version is
    taken back: its offset is set, and the application may never read it.
    """
    version = planned.part.new_version
    left = version.left_inputs if version else frozenset()
    inputs, config = [tp for tp in inputs_of(recovery, planned) if tp.topic not in left], recovery.config
    copies = set(config.restore.topic_map.values())
    return [tp for tp in inputs if config.topics.reads(tp.topic) or tp.topic in copies] or inputs


def _read_by(recovery: RecoveryContext, planned: RestorePlan) -> list[TopicPartition]:
    return [*inputs_of(recovery, planned), *repartition_partitions(recovery)]
