"""A cut by the names of transactions: read while the application works, exact, and nothing is held for it. See ``core.named_transactions``.

Changelogs end where the last record of the cut in them lies: below that no other transaction has committed one, so they are copied as always. What repartition
topics have beside the cut is left out of their unread records, by name. Outputs are archived as a whole up to the last record of the cut in them, and loaded
without the others. The compaction guard is up since before the look: what the cleaner removes in a pass that began earlier has a newer record of its key below
where the look begins, and that is in the cut.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from streams_recovery.core.errors import OffsetsGone, PermanentError
from streams_recovery.core.escaping import logger
from streams_recovery.core.jobs.spec import RangeCopied
from streams_recovery.core.kafka_types import Consistency, TopicPartition, TopicRole
from streams_recovery.core.named_transactions.cut import LookAgain, NamedCut, Unnamed, cut_at_names, look_again
from streams_recovery.core.named_transactions.readings import NamedReadings, read_named
from streams_recovery.core.named_transactions.way import missing_in, missing_of_loops
from streams_recovery.core.savepoint.cut import check_by_names, internal_by_names, proof_by_names, purged_tails
from streams_recovery.core.words import first_names
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
                return _look(recovery, ticket, found, reader, attempt, last=attempt == attempts)
            except (LookAgain, OffsetsGone) as error:
                reason = error.reason
                LOGGER.info("look %d found no cut by names: %s", attempt, reason)
            except PermanentError as error:
                return error.reason
    return reason


def _look(recovery: RecoveryContext, ticket: Ticket, found: Discovery, reader: NamedLogs, attempt: int, *, last: bool) -> Taken:
    changelogs = found.partitions(TopicRole.CHANGELOG)
    wanted = _logs_to_read(recovery, found, outputs=not last or attempt == 1)
    readings = read_named(reader, wanted, patience=float(recovery.config.backup.consistency.timeout_seconds))
    named = _cut(recovery, readings, found, last=last)
    internal, proof = internal_by_names(readings, named), proof_by_names(named, reader.group_partition(), attempt)
    logs = logs_of(recovery, found)
    check_by_names(
        transactional=logs.all_transactional(changelogs, {tp: readings.logs[tp].ends for tp in changelogs}),
        past_end=logs.past_end({tp: internal.committed.get(tp) for tp in logs.read}, found.topics),
    )
    partitions = completed(recovery, found, internal)
    # An output ends where the state does, if that is known.
    partitions |= {tp: replace(part, end=named.logs[tp].end) for tp, part in partitions.items() if tp in named.logs}
    tails = tails_of(found, partitions)
    if lost := purged_tails({part.tp: part for part in tails}):
        raise look_again(f"unread records of {lost[0]} were deleted before they could be copied", tp=lost[0])
    copied = copy_tails(recovery, ticket, tails, proof.names)
    cut = Cut(captured_at=readings.captured_at, consistency=Consistency.EXACT, proof=proof, partitions=partitions)
    await_outputs(recovery, found, cut)
    return cut, copied


def _logs_to_read(recovery: RecoveryContext, found: Discovery, *, outputs: bool) -> tuple[TopicPartition, ...]:
    """The logs of a look. Outputs that others write to are not waited for, and the last one of several looks has none: an output is no reason against the
    state.
    """
    internal = found.partitions(TopicRole.CHANGELOG, TopicRole.REPARTITION)
    wanted = found.partitions(TopicRole.OUTPUT) if outputs else ()
    shared = logs_of(recovery, found).shared(wanted, internal)
    return (*internal, *(tp for tp in wanted if tp.topic not in shared))


def _cut(recovery: RecoveryContext, readings: NamedReadings, found: Discovery, *, last: bool) -> NamedCut:
    """The cut, with what it has of outputs. Others may write there too, and what they do is no reason against the state: where it is, the outputs are left out.
    ``last`` is True for a look after which there is no other one, by which more could be said of them.
    """
    changelogs = found.partitions(TopicRole.CHANGELOG)
    outputs = [tp for tp in found.partitions(TopicRole.OUTPUT) if tp in readings.logs]
    internal = {tp: tail for tp, tail in readings.logs.items() if tp not in outputs}
    # Again, behind the readings: who came meanwhile is seen now.
    unknown = logs_of(recovery, found).shared(outputs, tuple(internal)) | _nameless(readings, outputs)
    if unknown:
        LOGGER.info("others write to outputs, which are not told apart by names: %s", first_names(sorted(unknown)))
    known = {tp: readings.logs[tp] for tp in outputs if tp.topic not in unknown}
    try:
        return cut_at_names(replace(readings, logs=internal | known), changelogs, known)
    except (LookAgain, Unnamed) as error:
        if not known or (isinstance(error, LookAgain) and not last):
            raise
        LOGGER.info("outputs are not told apart by names: %s", error.reason)
    return cut_at_names(replace(readings, logs=internal), changelogs)


def _nameless(readings: NamedReadings, outputs: Collection[TopicPartition]) -> frozenset[str]:
    """Outputs with records outside transactions, also of producers that no leader remembers: nobody can tell which of them are of the state."""
    return frozenset(tp.topic for tp in outputs if any(one.marker is None and not one.transactional for one in readings.logs[tp].batches))
