"""Offsets, local state, start: from verified topics to an application at work."""

from __future__ import annotations

import time

from streams_recovery import holds
from streams_recovery.application.port import InstanceState
from streams_recovery.core import codec
from streams_recovery.core.errors import ApplicationNotReady, Damaged
from streams_recovery.core.journal import Phase
from streams_recovery.core.model import CommittedOffset, TopicPartition
from streams_recovery.core.names import internal_role
from streams_recovery.core.plan import RestorePlan
from streams_recovery.leases import under_lock
from streams_recovery.restores.opening import guarded, note, stored_plan
from streams_recovery.restores.values import (
    OffsetsSummary,
    RecoveredSummary,
    RestoreReport,
    RestoreTicket,
    StartSummary,
    VerifySummary,
    WipeSummary,
)
from streams_recovery.savepoints.quiesce import start_timeout
from streams_recovery.survey import internal_topics
from streams_recovery.waiting import poll
from streams_recovery.workbench import Workbench


def set_offsets(bench: Workbench, ticket: RestoreTicket) -> OffsetsSummary:
    """Set every committed offset with its metadata and read them back. Last of the changes on the cluster: until now a start would not have
    continued from the savepoint. All or nothing. Raises ``ApplicationRunning`` when the group has members.
    """
    guarded(bench, ticket, at_least=Phase.VERIFIED, before=Phase.STARTED)
    planned = stored_plan(bench, ticket)
    wanted = {item.tp: CommittedOffset(offset=item.offset, metadata=item.metadata, leader_epoch=None) for item in planned.offsets}
    bench.groups.set_offsets(bench.application_id, wanted)
    note(bench, ticket, Phase.OFFSETS_SET)
    return OffsetsSummary(partitions=len(wanted), with_metadata=sum(1 for value in wanted.values() if value.metadata))


def wipe(bench: Workbench, ticket: RestoreTicket) -> WipeSummary:
    """Remove local state on every instance: Kafka Streams accepts stale state against a new changelog without an error, so none may remain."""
    guarded(bench, ticket, at_least=Phase.OFFSETS_SET, before=Phase.STARTED)
    report = bench.application.wipe_state()
    if report.remaining:
        raise Damaged(
            f"local state remains in {', '.join(report.remaining)}",
            next_step="remove these directories by hand, then clear this task",
            remaining=report.remaining,
        )
    note(bench, ticket, Phase.WIPED)
    return WipeSummary(removed=report.removed)


def start(bench: Workbench, ticket: RestoreTicket) -> StartSummary:
    """Start every instance. The ends of the inputs are read first: they are what the application has to catch up to."""
    guarded(bench, ticket, at_least=Phase.WIPED, before=Phase.RECOVERED)
    inputs = [item.tp for item in stored_plan(bench, ticket).offsets if not _internal(item.topic, bench)]
    ends = bench.cluster.last_stable_offsets(inputs)
    bench.application.start()
    note(bench, ticket, Phase.STARTED)
    instances = tuple(i.name for i in bench.application.status() if i.state is InstanceState.RUNNING)
    return StartSummary(instances=instances, ends={f"{tp.topic} {tp.partition}": end for tp, end in ends.items()})


def await_recovered(bench: Workbench, ticket: RestoreTicket, started: StartSummary) -> RecoveredSummary:
    """Wait until every instance is RUNNING and every input is committed up to the end it had at the start.

    RUNNING alone proves nothing: an application with empty stores gets there too. Raises ``ApplicationNotReady`` when the time is up, and
    ``Damaged`` when an internal topic appeared that the savepoint does not know: then it is another topology than the one that was saved.
    """
    under_lock(bench, ticket)
    began = time.monotonic()
    ends = {_partition(name): end for name, end in started.ends.items()}
    if poll(lambda: _running(bench), seconds=start_timeout(bench), interval=0.5) is None:
        raise _not_ready(bench, "not every instance is RUNNING")
    patience = float(bench.config.restore.catch_up_timeout_seconds)
    if poll(lambda: _caught_up(bench, ends), seconds=patience, interval=0.5) is None:
        raise _not_ready(bench, f"inputs were not processed up to their ends within {patience:.0f} s")
    _check_no_new_topics(bench, stored_plan(bench, ticket))
    note(bench, ticket, Phase.RECOVERED)
    names = tuple(i.name for i in bench.application.status() if i.state is InstanceState.RUNNING)
    return RecoveredSummary(instances=names, partitions_caught_up=len(ends), seconds=round(time.monotonic() - began, 1))


def _partition(text: str) -> TopicPartition:
    topic, number = text.rsplit(" ", 1)
    return TopicPartition(topic, int(number))


def _running(bench: Workbench) -> bool | None:
    statuses = bench.application.status()
    return True if statuses and all(i.streams_state == "RUNNING" for i in statuses) else None


def _caught_up(bench: Workbench, ends: dict[TopicPartition, int]) -> bool | None:
    committed = bench.groups.committed(bench.application_id, list(ends))
    behind = [tp for tp, end in ends.items() if (known := committed[tp]) is None or known.offset < end]
    return None if behind else True


def _not_ready(bench: Workbench, reason: str) -> ApplicationNotReady:
    states = ", ".join(f"{i.name}: {i.state}, {i.streams_state} ({i.detail})" for i in bench.application.status())
    return ApplicationNotReady(
        f"{bench.application_id}: {reason}. Instances: {states}",
        next_step="look at the instances' logs; clear this task to wait again",
        states=states,
    )


def _internal(topic: str, bench: Workbench) -> bool:
    return internal_role(topic, bench.application_id) is not None


def _check_no_new_topics(bench: Workbench, planned: RestorePlan) -> None:
    known = {step.name for step in planned.create}
    new = [name for name in internal_topics(bench) if name not in known]
    if new:
        raise Damaged(
            f"the application created internal topics that the savepoint does not have: {', '.join(new)}",
            next_step="deploy the version of the application that the savepoint was taken of, or rebuild its state from the input",
            topics=new,
        )


def finish(bench: Workbench, ticket: RestoreTicket, verified: VerifySummary) -> RestoreReport:
    """Put topic settings back where nothing restored would expire by it, write the evidence, and give the lock back."""
    under_lock(bench, ticket)
    planned = stored_plan(bench, ticket)
    still_held = holds.release_restore_holds(bench)
    report = RestoreReport(
        restore_id=ticket.restore_id,
        savepoint_id=planned.savepoint_id,
        plan_hash=ticket.plan_hash,
        requested_by=ticket.requested_by,
        reason=ticket.request.reason,
        started_at=ticket.started_at,
        finished_at=bench.clock(),
        rows=verified.rows_compared,
        keys_compared=verified.keys_compared,
        offsets=len(planned.offsets),
        still_held=still_held,
    )
    bench.repository.create(bench.layout.report(ticket.restore_id), codec.dumps(report))
    note(bench, ticket, Phase.CLOSED)
    bench.lock.release(ticket.lock)
    return report
