"""What has to hold while a rebuild is carried out: nothing goes that was not shown, and what was to go is gone."""

from __future__ import annotations

from collections.abc import Mapping

from streams_recovery.core.errors import PlanChanged, TargetNotEmpty
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import internal_topics
from streams_recovery.operations.restore.target_checks import spans


def check_still_planned(recovery: RecoveryContext, planned: RestorePlan, created: Mapping[str, set[str]]) -> None:
    """Raise ``PlanChanged`` when a topic that would be deleted is not the one that was shown, or is an input that was shown empty and is not any more.
    ``created`` has the ids of those that this rebuild made itself.
    """
    shown = {gone.name: gone.topic_id for gone in planned.delete} | {step.name: step.replaces for step in planned.create}
    there = recovery.cluster.describe_topics({*internal_topics(recovery), *shown})
    filled = spans(recovery, there)
    other = sorted(
        name
        for name, found in there.items()
        # One that is empty may have been made by an attempt that died before it could write that down.
        if found.topic_id not in (shown.get(name), *created.get(name, ())) and (name not in created or name in filled)
    )
    if other:
        raise PlanChanged(
            f"topics of {planned.application_id} were created since the plan was approved: {', '.join(other)}",
            next_step="find out who writes there, then trigger the rebuild again and approve the new plan",
            topics=other,
        )
    late = sorted(name for name in planned.written_by_others & set(filled) if there[name].topic_id not in created.get(name, ()))
    if late:
        raise PlanChanged(
            f"inputs of {planned.application_id} that were empty when the plan was approved hold records now: {', '.join(late)}",
            next_step="they were not touched; stop their producers, copy these records if somebody needs them, delete the topics, and go on: resume this "
            "rebuild if it can be resumed, else begin it again",
            topics=late,
        )


def check_cleared(recovery: RecoveryContext, planned: RestorePlan) -> tuple[str, ...]:
    """The internal topics that were to be deleted, proven gone. Raises ``TargetNotEmpty`` for those that are still, or again, there."""
    there = internal_topics(recovery)
    if there:
        raise TargetNotEmpty(
            f"internal topics of {recovery.application_id} are still there, or there again: {', '.join(there)}",
            next_step="find out who creates them, stop that, and resume this rebuild",
            topics=there,
        )
    return tuple(topic.name for topic in planned.delete)


def offsets_to_remove(recovery: RecoveryContext, planned: RestorePlan) -> list[TopicPartition]:
    """What the group has committed and the plan neither sets nor keeps: offsets on topics that are gone would be past the end of those that come."""
    wanted = {*(item.tp for item in planned.offsets), *planned.offsets_kept}
    return sorted(set(recovery.groups.committed_partitions(recovery.application_id)) - wanted)
