"""Taking a group's offsets back to a snapshot: plan, proof that the group is empty, and setting all offsets or none."""

from __future__ import annotations

from streams_recovery.core.approval import check_approved
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.snapshot import OffsetSnapshot, RollbackPlan, RollbackReport, plan_rollback
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.offsets import snapshots
from streams_recovery.operations.offsets.group_changes import empty_groups, keep_present


def plan(recovery: RecoveryContext, snapshot_id: str, group_id: str) -> RollbackPlan:
    """Plan the way back. Changes nothing. Raises ``NotFound``, and ``Refused`` for offsets that mean something else by now."""
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
    """Take the group's offsets back, under the application's lock, after what is there has been kept in a snapshot of its own.

    Raises ``PlanChanged`` when it is not what was approved, ``ApplicationRunning`` unless the group is empty and stays so, and for the application's own group
    unless its instances are gone too. The offsets are as before after any error, or the error says which are not.
    """
    with empty_groups(recovery, [group_id], purpose=f"rollback of the offsets of {group_id}", run_id=run_id):
        # Planned only now: no member can move the group's offsets any more.
        planned = plan(recovery, snapshot_id, group_id)
        check_approved(planned, approved_hash)
        before = keep_present(
            recovery,
            {group_id: {change.tp.topic for change in planned.changes}},
            run_id=run_id,
            requested_by=requested_by,
            reason=f"before group {group_id} went back to {planned.snapshot_id}",
        )
        recovery.groups.set_offsets(group_id, {change.tp: change.after for change in planned.changes})
        return RollbackReport(
            group_id=group_id, snapshot_id=snapshot_id, before=before, partitions=len(planned.changes), moved=planned.moving
        )


def _check_cluster(recovery: RecoveryContext, snapshot: OffsetSnapshot) -> None:
    cluster_id = recovery.cluster.cluster_id()
    if snapshot.cluster_id != cluster_id:
        raise Refused(
            f"snapshot {snapshot.snapshot_id} was taken of cluster {snapshot.cluster_id}, this is {cluster_id}",
            next_step="offsets of one cluster mean nothing on another; choose a snapshot of this one",
        )
