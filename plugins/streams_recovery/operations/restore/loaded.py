"""The record of what a restore has loaded into internal topics and outputs, by which later savepoints leave its producers out of account."""

from __future__ import annotations

from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import Guarantee, TopicPartition, TopicRole
from streams_recovery.core.repository.journal import JournalEntry, RestoreScope, created_by
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.savepoint.writers import LoadedEntry, LoadedTopic, loaded_topics
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.load import topic_ids, work_of
from streams_recovery.operations.restore.values import RestoreTicket
from streams_recovery.storage.loaded_log import loaded_log

LOGGER = logger("streams_recovery.operations.restore.loaded")
_WRITTEN = (TopicRole.CHANGELOG, TopicRole.REPARTITION, TopicRole.OUTPUT)


def record_loaded(recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan, written: tuple[JournalEntry, ...]) -> None:
    """Record the ends and producers of what was loaded and verified, while the application is down. Nothing is recorded of copies, which no application writes
    to, nor for an application that has no transactions to tell its writers by. A restore does not fail where that cannot be done: then they count.
    """
    if planned.part.scope is RestoreScope.COPIES or recovery.config.application.guarantee is not Guarantee.EXACTLY_ONCE_V2:
        return
    expected = _ends(planned)
    try:
        if expected and (topics := _loaded(recovery, planned, written, expected)):
            entry = LoadedEntry(restore_id=ticket.restore_id, cluster_id=recovery.cluster.cluster_id(), at=recovery.clock(), topics=topics)
            loaded_log(recovery.repository, recovery.layout).append(entry, whole=False)
    except RecoveryError as error:
        LOGGER.warning("the producers of this restore count as others for a day: %s", error.reason)


def _ends(planned: RestorePlan) -> dict[TopicPartition, int]:
    """Where the logs end that were loaded, of topics that the application writes."""
    names, begins = {step.name for step in planned.create if step.role in _WRITTEN}, planned.part.begins
    return {tp: begins.get(tp, 0) + load.rows for tp, load in work_of(planned).items() if tp.topic in names and load.rows}


def _loaded(
    recovery: RecoveryContext, planned: RestorePlan, written: tuple[JournalEntry, ...], expected: dict[TopicPartition, int]
) -> tuple[LoadedTopic, ...]:
    # In this order: an end that is still where it was proven says the same of all that was written before.
    writers = recovery.transactions.transactional_writers(expected)
    ends = recovery.cluster.high_watermarks(tuple(expected))
    ids = topic_ids(recovery, {tp.topic for tp in expected})
    made = created_by(written) | {name: {topic_id} for name, topic_id in planned.part.filled.items()}
    return loaded_topics(expected, {tp: (writers[tp].other, ends[tp]) for tp in expected}, ids, made)
