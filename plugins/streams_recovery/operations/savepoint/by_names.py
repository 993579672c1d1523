"""A cut by the names of transactions: read while the application works, exact, and nothing is held for it. See ``core.named_transactions``.

Changelogs end where the last record of the cut in them lies: below that no other transaction has committed one, so they are copied as always. What repartition
topics have beside the cut is left out of their unread records, by name. Outputs are archived as a whole up to the last record of the cut in them, and loaded
without the others. The compaction guard is up since before the look: what the cleaner removes in a pass that began earlier has a newer record of its key below
where the look begins, and that is in the cut.
"""

from __future__ import annotations

from streams_recovery.core.errors import NoRoom, OffsetsGone, PermanentError
from streams_recovery.core.escaping import logger
from streams_recovery.core.jobs.spec import RangeCopied
from streams_recovery.core.kafka_types import Consistency, TopicRole
from streams_recovery.core.named_transactions.cut import LookAgain, look_again
from streams_recovery.core.named_transactions.readings import WrittenLogs
from streams_recovery.core.named_transactions.way import missing_in, missing_of_loops
from streams_recovery.core.savepoint.cut import check_by_names, ends_by_names, internal_by_names, proof_by_names, purged_tails
from streams_recovery.kafka.named_transactions import NamedLogs
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import Discovery
from streams_recovery.operations.savepoint.cut import Cut, await_outputs, completed, copy_tails, logs_of, tails_of
from streams_recovery.operations.savepoint.values import Ticket
from streams_recovery.operations.savepoint_way import missing_by_configuration

LOGGER = logger("streams_recovery.operations.savepoint.by_names")
Taken = tuple[Cut, tuple[RangeCopied, ...]]


def take_by_names(recovery: RecoveryContext, ticket: Ticket, found: Discovery) -> Taken | str:
    """A cut with its unread records, or the reason why there is none. Looks as often as the policy allows. Raises ``OffsetsUnstable`` where a transaction stays
    open.
    """
    missing = missing_by_configuration(recovery) or missing_of_loops(
        found.inventory.names(TopicRole.INPUT, TopicRole.GLOBAL), recovery.config.topics.outputs
    )
    if missing is not None:
        return missing.text
    reason, attempts = "", recovery.config.backup.consistency.attempts
    with NamedLogs(recovery.connection, logs_of(recovery, found), timeout=float(recovery.config.source.timeout_seconds)) as reader:
        if (missing := missing_in(reader.facts())) is not None:
            return missing.text
        for attempt in range(1, attempts + 1):
            try:
                return _look(recovery, ticket, found, reader, attempt, attempts)
            except (LookAgain, OffsetsGone) as error:
                reason = error.reason
                LOGGER.info("look %d found no cut by names: %s", attempt, reason)
            except NoRoom:
                # No way of reading would find room.
                raise
            except PermanentError as error:
                return error.reason
    return reason


def _look(recovery: RecoveryContext, ticket: Ticket, found: Discovery, reader: NamedLogs, attempt: int, attempts: int) -> Taken:
    changelogs = found.partitions(TopicRole.CHANGELOG)
    written = WrittenLogs(
        changelogs=changelogs, between=found.partitions(TopicRole.REPARTITION), outputs=found.partitions(TopicRole.OUTPUT)
    )
    readings, named = reader.look(written, attempt, attempts)
    internal, proof = internal_by_names(readings, named), proof_by_names(named, reader.group_partition(), attempt)
    check_by_names(
        transactional=reader.logs.all_transactional(changelogs, written.between, {tp: log.ends for tp, log in readings.logs.items()}),
        past_end=reader.logs.past_end({tp: internal.committed.get(tp) for tp in reader.logs.read}, found.topics),
    )
    partitions = ends_by_names(completed(recovery, found, internal), proof.names)
    tails = tails_of(found, partitions)
    if lost := purged_tails({part.tp: part for part in tails}):
        raise look_again(f"unread records of {lost[0]} were deleted before they could be copied", tp=lost[0])
    copied = copy_tails(recovery, ticket, tails, proof.names)
    cut = Cut(captured_at=readings.captured_at, consistency=Consistency.EXACT, proof=proof, partitions=partitions)
    await_outputs(recovery, found, cut)
    return cut, copied
