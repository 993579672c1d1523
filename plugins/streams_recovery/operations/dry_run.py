"""Questions to the cluster that a plan asks before anything is stopped: whether it would create the topics that are made. Nothing is created."""

from __future__ import annotations

from collections.abc import Sequence

from streams_recovery.core.errors import Refused
from streams_recovery.core.names import one_for_kafka
from streams_recovery.core.restore.plan import TopicToCreate
from streams_recovery.operations.context import RecoveryContext

_NAMED = 5


def refuse_unwanted(recovery: RecoveryContext, created: Sequence[TopicToCreate]) -> None:
    """Raise ``Refused`` naming topics that the cluster would not create: two of them are one name for Kafka, or one that is there is; a policy forbids them; it
    has too few brokers or takes no more partitions; or it does not take a setting that another cluster took.
    """
    if not created:
        return
    # The cluster compares with the topics that are there, and not with the others that it is asked for.
    alike = {" and ".join(names): "Kafka takes only one of them: they differ in dots and underscores alone" for names in _alike(created)}
    shapes = {step.name: (len(step.partitions), step.replication_factor, step.held_config) for step in created}
    refused = alike | recovery.cluster.refused_topics(shapes)
    if refused:
        raise Refused(
            f"the cluster at {recovery.site} would not create {len(refused)} of {len(created)} topics: "
            + "; ".join(f"{name}: {why}" for name, why in list(refused.items())[:_NAMED])
            + ("" if len(refused) <= _NAMED else f"; and {len(refused) - _NAMED} more"),
            next_step="nothing was changed; rename or remove a topic whose name is taken, have the cluster's policy allow the others, or change their settings "
            "where the application runs and take a savepoint",
            topics=refused,
        )


def _alike(created: Sequence[TopicToCreate]) -> tuple[tuple[str, ...], ...]:
    return one_for_kafka(step.name for step in created)
