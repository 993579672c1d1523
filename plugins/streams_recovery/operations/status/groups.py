"""The application's consumer group as the cluster has it now."""

from __future__ import annotations

from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.status.group import GroupLag, group_lag
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import repartition_partitions
from streams_recovery.operations.lag import measure


def look_at_group(recovery: RecoveryContext) -> GroupLag:
    """Its members, and how far it is behind in its inputs and in its repartition topics. Inputs that do not exist are left out."""
    group = recovery.groups.describe(recovery.application_id)
    inputs = recovery.cluster.describe_topics(recovery.config.topics.inputs)
    roles = {TopicPartition(name, number): TopicRole.INPUT for name, found in inputs.items() for number in range(found.partitions)}
    roles |= dict.fromkeys(repartition_partitions(recovery), TopicRole.REPARTITION)
    return group_lag(group, roles, measure(recovery, roles))
