"""The way in which a savepoint of an application is taken now: the facts of ``core.named_transactions.way``."""

from __future__ import annotations

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import QuiesceMode, TopicRole
from streams_recovery.core.named_transactions.way import (
    Missing,
    SavepointWay,
    missing_guarantee,
    missing_in,
    missing_of_loops,
    missing_writers,
    way_of,
)
from streams_recovery.kafka.application_logs import impatient_logs
from streams_recovery.kafka.named_transactions import impatient_named_logs
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import internal_topics


def savepoint_way(recovery: RecoveryContext, mode: QuiesceMode | None = None) -> SavepointWay:
    """The way of a savepoint that is taken now. ``mode`` overrides the configured one. Changes nothing, and reads no more than the end of the partition that
    has the group's offsets. Raises what a cluster that does not answer raises.
    """
    missing = missing_for_names(recovery) or _missing_writers(recovery)
    return way_of(mode or recovery.config.quiesce_mode, running=bool(not_gone(recovery)), missing=missing)


def missing_for_names(recovery: RecoveryContext) -> Missing | None:
    """The first condition of a savepoint by the names of transactions that is not met, None if one can be taken while the application works. What the writers
    of changelogs show is asked where they are read.
    """
    return missing_by_configuration(recovery) or _missing_of_undeclared_loops(recovery) or _missing_facts(recovery)


def missing_by_configuration(recovery: RecoveryContext) -> Missing | None:
    """The first of those conditions that ask nothing of the cluster."""
    return missing_guarantee(recovery.config.application.guarantee) or missing_of_loops(
        recovery.config.topics.loops, recovery.config.topics.outputs
    )


def _missing_of_undeclared_loops(recovery: RecoveryContext) -> Missing | None:
    outputs = recovery.config.topics.outputs
    try:
        return (
            missing_of_loops({tp.topic for tp in recovery.groups.committed_partitions(recovery.application_id)}, outputs)
            if outputs
            else None
        )
    except Refused:
        # As for the writers.
        return None


def _missing_writers(recovery: RecoveryContext) -> Missing | None:
    try:
        return None if _writers_proven(recovery) else missing_writers()
    except Refused:
        # Which right is missing, the preflight of a savepoint says.
        return None


def _writers_proven(recovery: RecoveryContext) -> bool:
    """True where all that was written to internal topics was written in transactions, as far as that is known."""
    partitions = tuple(recovery.cluster.replicas(internal_topics(recovery)))
    changelogs = [tp for tp in partitions if recovery.config.internal_role(tp.topic) is TopicRole.CHANGELOG]
    between = [tp for tp in partitions if tp not in changelogs]
    with impatient_logs(recovery.application_id, recovery.connection, recovery.cluster, recovery.clock, recovery.loads) as logs:
        return not changelogs or logs.all_transactional(changelogs, between, recovery.cluster.high_watermarks(partitions))


def _missing_facts(recovery: RecoveryContext) -> Missing | None:
    with impatient_named_logs(recovery.application_id, recovery.connection, recovery.cluster, recovery.clock, recovery.loads) as names:
        return missing_in(names.facts())
