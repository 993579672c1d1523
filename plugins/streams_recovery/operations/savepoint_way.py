"""The way in which a savepoint of an application is taken now: the facts of ``core.named_transactions.way``."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import QuiesceMode, TopicRole
from streams_recovery.core.named_transactions.cut import NEEDED_VERSION, LookAgain
from streams_recovery.core.named_transactions.way import (
    Missing,
    NamesFacts,
    SavepointWay,
    missing_guarantee,
    missing_in,
    missing_of_loops,
    missing_writers,
    way_of,
)
from streams_recovery.kafka.application_logs import impatient_logs
from streams_recovery.kafka.named_transactions import NamedLogs
from streams_recovery.kafka.permissions import principal
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import internal_topics


def savepoint_way(recovery: RecoveryContext, mode: QuiesceMode | None = None) -> SavepointWay:
    """The way of a savepoint that is taken now. ``mode`` overrides the configured one. Changes nothing, and reads no more than the end of the group's partition
    of ``__consumer_offsets``. Raises what a cluster that does not answer raises.
    """
    missing = missing_for_names(recovery) or _missing_writers(recovery)
    return way_of(mode or recovery.config.quiesce_mode, running=bool(not_gone(recovery)), missing=missing)


def missing_for_names(recovery: RecoveryContext) -> Missing | None:
    """The first condition of a savepoint by the names of transactions that is not met, None if one can be taken while the application works. What the writers
    of changelogs show is asked where they are read.
    """
    topics = recovery.config.topics
    return (
        missing_guarantee(recovery.config.application.guarantee)
        or missing_of_loops([name for name in topics.outputs if topics.reads(name)])
        or missing_in(_names_facts(recovery))
    )


def _missing_writers(recovery: RecoveryContext) -> Missing | None:
    try:
        return None if _writers_proven(recovery) else missing_writers()
    except Refused:
        # Which right is missing, the preflight of a savepoint says.
        return None


def _writers_proven(recovery: RecoveryContext) -> bool:
    """True where no changelog was written by anybody without transactions, as far as that is known."""
    changelogs = [name for name in internal_topics(recovery) if recovery.config.internal_role(name) is TopicRole.CHANGELOG]
    partitions = tuple(recovery.cluster.replicas(changelogs))
    with impatient_logs(recovery.application_id, recovery.connection, recovery.cluster, recovery.clock) as logs:
        return not partitions or logs.all_transactional(partitions, recovery.cluster.high_watermarks(partitions))


def _names_facts(recovery: RecoveryContext) -> NamesFacts:
    connection = recovery.connection
    with (
        impatient_logs(recovery.application_id, connection, recovery.cluster, recovery.clock) as logs,
        NamedLogs(connection, logs) as names,
    ):
        version = names.version()
        facts = NamesFacts(tools=connection.tools, principal=principal(connection), version=version)
        if version < NEEDED_VERSION:
            return facts
        try:
            return replace(facts, recent=names.recent())
        except NotFound:
            return replace(facts, unreadable="the cluster does not show it")
        except Refused as error:
            return replace(facts, unreadable=error.reason, refused=True)
        except LookAgain:
            # Busy, or cleaned while it was read: the cut asks again.
            return facts
