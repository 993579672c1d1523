"""Taking a group's offsets back to a snapshot: plan, proof that nobody is in the group, all of them or none."""

from __future__ import annotations

from streams_recovery.application.port import InstanceState
from streams_recovery.core.approval import check_approved
from streams_recovery.core.errors import ApplicationRunning, Damaged, Refused
from streams_recovery.core.ids import new_id
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.snapshot import OffsetSnapshot, RollbackPlan, RollbackReport, plan_rollback
from streams_recovery.core.waiting import WaitNotice
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.offsets import snapshots
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from streams_recovery.operations.unfinished import refuse_if_unfinished

_EMPTY_SECONDS = 5.0


def plan(recovery: RecoveryContext, snapshot_id: str, group_id: str) -> RollbackPlan:
    """What going back would do. Changes nothing. Raises ``NotFound``, and ``Refused`` for offsets that mean something else by now."""
    snapshot = snapshots.find(recovery, snapshot_id)
    _check_cluster(recovery, snapshot)
    wanted = snapshot.group(group_id)
    topics = recovery.cluster.describe_topics(sorted(wanted.topics))
    there = [TopicPartition(name, number) for name, found in topics.items() for number in range(found.partitions)]
    starts, ends = (recovery.cluster.log_starts(there), recovery.cluster.high_watermarks(there)) if there else ({}, {})
    committed = [tp for tp in recovery.groups.committed_partitions(group_id) if tp.topic in topics]
    now = recovery.groups.committed(group_id, committed) if committed else {}
    return plan_rollback(
        snapshot,
        group_id,
        now={tp: found for tp, found in now.items() if found is not None},
        topics=topics,
        spans={tp: (starts[tp], ends[tp]) for tp in there},
    )


def carry_out(
    recovery: RecoveryContext, snapshot_id: str, group_id: str, *, approved_hash: str, run_id: str, requested_by: str
) -> RollbackReport:
    """Go back, under the application's lock, after what is there has been kept in a snapshot of its own.

    Raises ``PlanChanged`` when it is not what was approved, ``ApplicationRunning`` unless the group is empty and stays so, and for the
    application's own group unless its instances are gone too. The offsets are as before after any error, or the error says which are not.
    """
    lock = recovery.lock.acquire(f"rollback {run_id}", lease_seconds=LEASE_SECONDS, purpose=f"rollback of the offsets of {group_id}")
    try:
        own = group_id == recovery.application_id
        if own:
            refuse_if_unfinished(recovery)
            _check_gone(recovery)
        recovery.groups.wait_empty(group_id, _EMPTY_SECONDS, waiting=WaitNotice(f"group {group_id} to become empty").waiting)
        # Planned only now: no member can move the group's offsets any more.
        planned = plan(recovery, snapshot_id, group_id)
        check_approved(planned, approved_hash)
        before = _keep_what_is_there(recovery, planned, run_id, requested_by)
        recovery.groups.set_offsets(group_id, {change.tp: change.after for change in planned.changes})
        return RollbackReport(
            group_id=group_id, snapshot_id=snapshot_id, before=before, partitions=len(planned.changes), moved=planned.moving
        )
    finally:
        recovery.lock.release(lock)


def _keep_what_is_there(recovery: RecoveryContext, planned: RollbackPlan, run_id: str, requested_by: str) -> str:
    group_id = planned.group_id
    before = snapshots.take(
        recovery,
        [group_id],
        snapshot_id=new_id(recovery.clock(), run_id),
        topics={change.tp.topic for change in planned.changes},
        requested_by=requested_by,
        reason=f"before group {group_id} went back to {planned.snapshot_id}",
    )
    if before.unread:
        raise Damaged(
            f"the offsets of group {group_id} cannot be kept: {before.unread[group_id]}", next_step="nothing was changed; try again"
        )
    snapshots.keep(recovery, before)
    return before.snapshot_id


def _check_cluster(recovery: RecoveryContext, snapshot: OffsetSnapshot) -> None:
    cluster_id = recovery.cluster.cluster_id()
    if snapshot.cluster_id != cluster_id:
        raise Refused(
            f"snapshot {snapshot.snapshot_id} was taken of cluster {snapshot.cluster_id}, this is {cluster_id}",
            next_step="offsets of one cluster mean nothing on another; choose a snapshot of this one",
        )


def _check_gone(recovery: RecoveryContext) -> None:
    alive = [f"{i.name} ({i.detail})" for i in recovery.application.status() if i.state is not InstanceState.GONE]
    if alive:
        raise ApplicationRunning(
            f"instances of {recovery.application_id} run: {', '.join(alive)}",
            next_step="nothing was changed; stop them first",
            instances=alive,
        )
