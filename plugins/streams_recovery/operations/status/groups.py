"""A consumer group as the cluster has it now."""

from __future__ import annotations

from streams_recovery.core import lag as lagging
from streams_recovery.core.errors import NotFound
from streams_recovery.core.kafka_types import GroupDescription, TopicPartition, TopicRole
from streams_recovery.core.lag import Lag
from streams_recovery.core.status.group import GroupLag, group_lag
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import repartition_partitions
from streams_recovery.operations.lag import measure


def look_at_group(recovery: RecoveryContext, group_id: str | None = None) -> GroupLag:
    """A group's members, and how far it is behind: the application's own in its inputs and its repartition topics, another one wherever it has committed
    or reads. Topics that do not exist are left out. Raises ``NotFound`` for another group that does not exist.
    """
    group = recovery.groups.describe(group_id or recovery.application_id)
    if group.group_id != recovery.application_id:
        if group.kind == "absent":
            raise NotFound(
                f"there is no group {group.group_id}", next_step="streams-recovery groups list has the names", groups=[group.group_id]
            )
        return group_lag(group, {}, _lags(recovery, group))
    inputs = recovery.cluster.describe_topics(recovery.topics.inputs)
    roles = {TopicPartition(name, number): TopicRole.INPUT for name, found in inputs.items() for number in range(found.partitions)}
    roles |= dict.fromkeys(repartition_partitions(recovery), TopicRole.REPARTITION)
    return group_lag(group, roles, measure(recovery, roles))


def _lags(recovery: RecoveryContext, group: GroupDescription) -> dict[TopicPartition, Lag]:
    committed = recovery.groups.last_committed(group.group_id)
    read = {*committed, *(tp for member in group.members for tp in member.assigned)}
    topics = recovery.cluster.describe_topics({tp.topic for tp in read})
    wanted = sorted(tp for tp in read if tp.topic in topics and tp.partition < topics[tp.topic].partitions)
    if not wanted:
        return {}
    starts, stable = recovery.cluster.log_starts(wanted), recovery.cluster.last_stable_offsets(wanted)
    return lagging.lags(committed, starts, stable, recovery.cluster.high_watermarks(wanted))
