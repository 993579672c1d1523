"""The cut: what is read, in which order, and what the readings prove.

The order, the same for every guarantee:

1. C1, the committed offsets, once no transaction can change them any more;
2. E, the high watermark of each internal partition, which is the end of the cut in it;
3. L, the last stable offset of each internal partition, when it has reached E;
4. C2, the committed offsets again, read like C1;
5. H, the high watermark of each internal partition again;
6. the high watermarks of outputs, then a wait until their transactions are decided too. Only for a cut that is used.

**Every cut is complete.** Kafka Streams commits an offset after all that the input below it caused was acknowledged. So the effects of input below C1 are
below E, and after step 3 their transactions are decided.

**A cut of transactions is exact when E = L = H in every internal partition, and C1 = C2.** The high watermark of a log never falls, so between its readings
in steps 2 and 5 nothing was acknowledged in a partition whose E equals H, neither a record nor the marker that ends a transaction. All of step 2 is over
when step 4 begins, and step 5 begins when it is over: during step 4 every internal partition ended at E, at the same moment. Since L = E, no transaction was
open in any of them then.

- A committed transaction with one record below E is in the cut as a whole. Its marker in that partition is below E, so it had ended before. A producer ends
  a transaction after all of its records were acknowledged, so its records in other partitions are below E too, and since nothing is open there, so are its
  markers, in whichever order they were written. It sent its offsets before it ended, so C2 has them: it was read later, and waits for offsets that are sent
  and not decided.
- A transaction whose offsets are in C2 is in the cut. It had ended when C2 was read, so its records were acknowledged by then and are below H, which is E.

The cut is then the work of whole transactions, and C is where exactly these had come to. That holds for transactions that move no offset, as a punctuation's
without new input: C1 = C2 says nothing about them, only E = L = H does. What they wrote to outputs was acknowledged before step 6 and is below the ends read
there, perhaps with what later transactions wrote.

**Without transactions** a log between two of its records looks like one that is complete. Only an application that was held is exact then: it had processed
nothing since before C1, and had committed all it had processed. Nothing on the cluster shows whether everything that was processed is also committed. After a
pause that is certain once a commit interval has passed; after a stop, if Kafka Streams was closed first. If an application reports both, that is used.
Otherwise it is assumed, and the savepoint says so.

Readings count for logs that stay what they are: the caller compares topics, partitions and leaders before and after.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, Guarantee, QuiesceMode, TopicPartition, truncation
from streams_recovery.core.named_transactions.cut import NamedCut
from streams_recovery.core.named_transactions.proof import NamedProof
from streams_recovery.core.named_transactions.readings import NamedReadings
from streams_recovery.core.repository.manifest import CopiedRange, CutProof, PartitionCut
from streams_recovery.core.words import first_names, moment

Offsets = Mapping[TopicPartition, int]
Committed = Mapping[TopicPartition, CommittedOffset | None]
_NO_EPOCHS: Final[Mapping[TopicPartition, int | None]] = {}

MOST_COMMIT_INTERVAL_MS: Final = 3_600_000
# A record that an application was stopped is believed for a day, where nothing else says who stopped it.
_BELIEVED_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalEnds:
    """A cut in the internal partitions: their ends, their last stable offsets, and the offsets that are committed in it."""

    committed: Committed
    ends: Offsets
    last_stable: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """The readings of one attempt at a cut, in the order above. ``captured_at`` (ms) is by this machine's clock, after ``committed_before``.
    ``ends``, ``last_stable`` and ``ends_after`` are of the internal partitions.
    """

    committed_before: Committed
    captured_at: int
    ends: Offsets
    last_stable: Offsets
    committed_after: Committed
    ends_after: Offsets

    @property
    def internal(self) -> InternalEnds:
        """What they are a cut of."""
        return InternalEnds(committed=self.committed_before, ends=self.ends, last_stable=self.last_stable)

    @property
    def committed_unchanged(self) -> bool:
        """True if no committed offset or metadata changed between the two reads."""
        return dict(self.committed_before) == dict(self.committed_after)

    @property
    def open_across(self) -> tuple[TopicPartition, ...]:
        """Internal partitions with an open transaction at the cut's end: its marker is later, or not written yet."""
        return _differing(self.ends, self.last_stable)

    @property
    def moved(self) -> tuple[TopicPartition, ...]:
        """Internal partitions whose end changed during the attempt."""
        return _differing(self.ends, self.ends_after)

    @property
    def exact(self) -> bool:
        """True if no reading contradicts an exact cut."""
        return self.committed_unchanged and self.still

    @property
    def still(self) -> bool:
        """True if all internal partitions ended at the cut's ends at one moment, with no open transaction."""
        return not self.open_across and not self.moved


class LogReader(Protocol):
    """Reads the logs and offsets of one application. Each partition of an answer may have been read at a time of its own; committed offsets all at
    one moment.
    """

    def clock(self) -> int:
        """The time in ms."""

    def committed(self) -> Committed:
        """The application's committed offsets, at a moment at which no transaction could change one of them any more."""

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The ends, records of open transactions included."""

    def await_decided(self, ends: Offsets) -> Offsets:
        """Wait until every last stable offset has reached its end, and return them."""


def read_cut(logs: LogReader, internal: Collection[TopicPartition]) -> Readings:
    """Read a cut through these partitions. As little as possible is asked between the two readings of their ends: nothing may be written meanwhile."""
    committed_before = logs.committed()
    captured_at = logs.clock()
    ends = logs.high_watermarks(internal)
    last_stable = logs.await_decided(ends)
    committed_after = logs.committed()
    return Readings(
        committed_before=committed_before,
        captured_at=captured_at,
        ends=ends,
        last_stable=last_stable,
        committed_after=committed_after,
        ends_after=logs.high_watermarks(internal),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CutEvidence:
    """The evidence of one attempt at a cut. ``held`` is True if the application was proven idle for the whole attempt. In mode ``stop``: it closed
    cleanly. In mode ``pause``: the same members were paused before and after, for longer than a commit interval. ``why_not_held`` explains False.
    ``writers_transactional`` does not matter if the readings already contradict an exact cut. ``not_transactional`` are changelogs that show that the program
    works at least once, whatever its configuration says. ``past_end`` are partitions whose committed offset lies behind what their log has left of it.
    """

    mode: QuiesceMode
    guarantee: Guarantee
    readings: Readings
    held: bool
    why_not_held: str
    writers_transactional: bool
    not_transactional: tuple[TopicPartition, ...] = ()
    past_end: tuple[TopicPartition, ...] = ()


def past_end(
    committed: Committed,
    ends: Offsets,
    *,
    epochs: Mapping[TopicPartition, int | None] = _NO_EPOCHS,
    epoch_ends: Mapping[TopicPartition, int | None] = _NO_EPOCHS,
) -> tuple[TopicPartition, ...]:
    """The partitions whose committed offset lies behind the end that was read after it, as when the log was cut back while the application did not read on. The
    state has records that the log lost, and the offset would skip what comes in their place.

    Where a log has grown again, only leader epochs tell: ``epochs`` are the present ones of the logs, and ``epoch_ends`` where the records end of those up to
    the epoch of the committed offset. An offset that was committed without an epoch shows nothing then.
    """

    def lost(tp: TopicPartition, known: CommittedOffset) -> bool:
        why = truncation(seen=known.leader_epoch, upto=known.offset, now=epochs.get(tp), epoch_end=epoch_ends.get(tp))
        return why is not None or (tp in ends and known.offset > ends[tp])

    return tuple(sorted(tp for tp, known in committed.items() if known is not None and lost(tp, known)))


def judge(evidence: CutEvidence) -> tuple[Consistency, tuple[str, ...]]:
    """The label that the evidence supports, and the reasons against ``exact``."""
    readings = evidence.readings
    if not readings.committed_before:
        return Consistency.AHEAD, ("no committed offsets were found to compare",)
    reasons = []
    if not readings.committed_unchanged:
        reasons.append("committed offsets moved between the two reads")
    if evidence.past_end:
        reasons.append(
            f"the committed offset of {first_names(evidence.past_end)} lies behind the end of its log, or of what the log has left of the leader epoch "
            "that was committed with it: records that the state has are lost, and others come in their place"
        )
    if readings.open_across:
        reasons.append(f"a transaction was open at the end of {first_names(readings.open_across)}")
    elif readings.moved:
        reasons.append(f"internal topics were written to while the cut was read: {first_names(readings.moved)}")
    exactly_once = evidence.guarantee is Guarantee.EXACTLY_ONCE_V2
    transactional = exactly_once and evidence.writers_transactional
    if exactly_once and evidence.mode is QuiesceMode.PAUSE and evidence.not_transactional:
        # It was held for the commit interval of exactly once, and commits far less often.
        reasons.append(works_at_least_once(evidence.not_transactional))
    # With transactions the readings give the reason. Only without such a reason does it matter whether the writers are transactional.
    if not evidence.held and not transactional and (not reasons or evidence.guarantee is Guarantee.AT_LEAST_ONCE):
        reasons.append(f"{evidence.why_not_held}, and the changelog writers are not proven transactional")
    return (Consistency.AHEAD if reasons else Consistency.EXACT), tuple(reasons)


def proof(evidence: CutEvidence, *, held_seconds: float, attempts: int) -> tuple[Consistency, CutProof]:
    """The label, and the proof for the manifest. Only for cuts whose last stable offsets have reached their ends: no other cut may be published."""
    consistency, reasons = judge(evidence)
    return consistency, CutProof(
        mode=evidence.mode,
        committed_unchanged=evidence.readings.committed_unchanged,
        stable_reached=True,
        still_between_reads=evidence.readings.still,
        held_seconds=round(held_seconds, 3),
        attempts=attempts,
        reasons=reasons,
        past_end=evidence.past_end,
    )


def internal_by_names(readings: NamedReadings, named: NamedCut) -> InternalEnds:
    """The internal partitions at a cut by the names of transactions."""
    return InternalEnds(
        committed=named.committed,
        ends={tp: log.end for tp, log in named.logs.items()},
        last_stable={tp: tail.stable for tp, tail in readings.logs.items()},
    )


def ends_by_names(partitions: Mapping[TopicPartition, PartitionCut], names: NamedProof | None) -> dict[TopicPartition, PartitionCut]:
    """The partitions of a cut. An output ends where the state does, if ``names`` tell that."""
    logs = {} if names is None else names.logs
    return {tp: replace(part, end=logs[tp].end) if tp in logs else part for tp, part in partitions.items()}


def proof_by_names(named: NamedCut, group: TopicPartition, attempts: int) -> CutProof:
    """The proof of such a cut, for which nothing stood still. ``group`` is the group's partition."""
    return CutProof(
        mode=QuiesceMode.LIVE,
        committed_unchanged=False,
        stable_reached=True,
        still_between_reads=False,
        held_seconds=0.0,
        attempts=attempts,
        reasons=(),
        assumptions=(ALONE,),
        names=named.proof(group),
    )


def check_by_names(*, transactional: bool, past_end: Collection[TopicPartition]) -> None:
    """Raise ``Refused`` where what lies below a look at names is not proven to be the work of whole transactions, or has lost records that were read."""
    if not transactional:
        raise Refused("the changelog writers are not proven transactional", next_step="take the savepoint in another way")
    if past_end:
        raise Refused(
            f"the committed offset of {first_names(past_end)} lies behind what its log has left",
            next_step="take the savepoint in another way",
        )


def works_at_least_once(changelogs: Collection[TopicPartition]) -> str:
    """The reason why an application is not taken for one that works exactly once."""
    return (
        f"application.guarantee is exactly_once_v2, and {first_names(changelogs)} {'has' if len(changelogs) == 1 else 'have'} been written without "
        "transactions: the program works at least once"
    )


def moved_since(readings: Readings, committed: Committed, ends: Offsets) -> str:
    """The reason why the application was at work although it was held, as its offsets and ends tell after the copy. Empty when nothing has moved."""
    moved = _differing(readings.ends, ends)
    if moved:
        return f"{first_names(moved)} went on after the cut was read, while the application was held"
    return "" if dict(readings.committed_before) == dict(committed) else "offsets were committed after the cut was read, while it was held"


def unread(partitions: Mapping[TopicPartition, PartitionCut]) -> bool:
    """True if records are left behind a committed offset in any of these partitions."""
    return any(cut.committed is not None and cut.committed.offset < cut.end for cut in partitions.values())


ALONE: Final = "nobody but the application writes to its internal topics"
NONE_WAS_AHEAD: Final = (
    "no instance that was killed before had come further in the input than the committed offsets: what it had done without a commit stays in the changelogs "
    "until the input is read to there again"
)
CLOSED_IN_TIME: Final = "each instance closed Kafka Streams before it ended, which commits what it has processed"


def assumptions(evidence: CutEvidence, *, left: bool) -> tuple[str, ...]:
    """Everything that the label ``exact`` takes for granted because nothing that can be asked tells, beside what ``of_pause`` and ``of_stop`` say. ``left`` is
    True if the application had not read all of its input: else whatever an instance had done, its input is committed.
    """
    at_least_once = evidence.guarantee is Guarantee.AT_LEAST_ONCE or bool(evidence.not_transactional)
    found = [ALONE]
    if at_least_once and left:
        found.append(NONE_WAS_AHEAD)
    if evidence.not_transactional and evidence.mode is QuiesceMode.STOP:
        found.append(f"{CLOSED_IN_TIME}: {works_at_least_once(evidence.not_transactional)}")
    return tuple(found)


def _differing(ends: Offsets, others: Offsets) -> tuple[TopicPartition, ...]:
    return tuple(sorted(tp for tp in {*ends, *others} if ends.get(tp) != others.get(tp)))


def purged_tails(partitions: Mapping[TopicPartition, PartitionCut]) -> tuple[TopicPartition, ...]:
    """Repartition partitions in which unread records were deleted, above the committed offset. Such a cut cannot be used: take another."""
    return tuple(tp for tp, cut in partitions.items() if cut.log_start > cut.tail_start)


def commit_interval(reported: Mapping[str, int | None], configured_ms: int) -> int:
    """The longest time (ms) until an application commits: the longest interval that an instance reports. If an instance reports none, at least the
    configured one. Raises ``Refused`` for an interval that no configuration may have: the application would be held for as long as an instance likes.
    """
    beyond = {name: interval for name, interval in reported.items() if interval is not None and interval > MOST_COMMIT_INTERVAL_MS}
    if beyond:
        raise Refused(
            f"{', '.join(f'{name} reports a commit interval of {interval} ms' for name, interval in sorted(beyond.items()))}, and {MOST_COMMIT_INTERVAL_MS} ms "
            "is the longest that a pause waits for",
            next_step="correct what it reports as commit_interval_ms, or set backup.consistency.mode: stop",
            intervals=beyond,
        )
    known = [interval for interval in reported.values() if interval is not None]
    return max(known) if known and len(known) == len(reported) else max([*known, configured_ms])


def of_pause(guarantee: Guarantee, reported: Mapping[str, int | None], configured_ms: int) -> tuple[str, ...]:
    """The assumptions behind the label of a paused application's cut, as sentences."""
    silent = sorted(name for name, interval in reported.items() if interval is None)
    if guarantee is Guarantee.EXACTLY_ONCE_V2 or not silent:
        return ()
    return (
        f"its label assumes that {', '.join(silent)} commits every {configured_ms} ms, as application.commit_interval_ms says: it does not report its interval",
    )


def of_stop(guarantee: Guarantee, silent: Iterable[str], closed: str) -> tuple[str, ...]:
    """The assumptions behind the label of a stopped application's cut, as sentences. ``silent`` instances did not report that they were closed; ``closed`` is
    what is assumed of them.
    """
    names = sorted(silent)
    if guarantee is Guarantee.EXACTLY_ONCE_V2 or not names:
        return ()
    return (f"its label assumes that {', '.join(names)} {closed}",)


def deletions_kept(copied: Iterable[tuple[CopiedRange, bool]], known: int | None, last: int) -> int | None:
    """The moment since which a topic that shares files with the savepoint of ``last`` takes for granted that no deletion was cleaned away, None when the
    log proves that none was. ``copied`` are the ranges that were read since, each with whether its log is known to have every offset as it was written;
    ``known`` is what that savepoint took for granted.

    The cleaner keeps a deletion for as long as ``delete.retention.ms`` says at the time when it comes by, and nothing in Kafka tells what the setting was
    then. So where the setting was lowered and put back between two savepoints, only a missing offset is left of a deletion, and the shared files bring
    the key back. A missing offset is explained when there is a record for each offset, or when the batches show that what is no record is a marker. How many
    records a consumer received explains nothing: one that is missing and one that was fetched beyond the end make the right sum.
    """
    if known is not None:
        return known
    rows = ((0 if piece.file is None else piece.file.rows, piece.end - piece.start, whole) for piece, whole in copied)
    return last if any(found != span and not whole for found, span, whole in rows) else None


def of_deletions(since: Mapping[str, int]) -> tuple[str, ...]:
    """The assumption of a savepoint whose topics take that for granted since these moments, as a sentence."""
    if not since:
        return ()
    have, after = "has" if len(since) == 1 else "have", moment(min(since.values()))
    said = (
        f"{first_names(sorted(since))} {have} the records of several savepoints, and offsets in between are missing. It is assumed that the log cleaner "
        f"removed only values that were written again: if delete.retention.ms was lowered for a while after {after} and put back before the next "
        "savepoint, keys that were deleted then come back. A savepoint that copies in full assumes nothing"
    )
    return (said,)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuiesceRecord:
    """One entry of the log; only the newest counts. ``begins`` is written before ``run`` touches the first of ``instances``, ``ended`` when all of
    them work again.
    """

    kind: Literal["begins", "ended"]
    run: str
    mode: QuiesceMode
    instances: tuple[str, ...]
    at: int


def why_not_brought_back(stopped_here: Mapping[str, bool | None], *, age_ms: int, between_runs: bool) -> str | None:
    """The reason an application is not started again although a record says that a dead run has stopped it, None when it may be. ``stopped_here`` tells of each
    instance of the record that is gone whether this software asked it to end, None if the port does not know. A record is data, so these answers decide;
    without any answer a record is believed for a day. ``between_runs``: the application is down between two of its own runs, and no savepoint stops what is
    down.
    """
    if between_runs and stopped_here:
        return "it is down between two of its runs"
    if not stopped_here or any(stopped_here.values()):
        return None
    if any(asked is not None for asked in stopped_here.values()):
        return f"{', '.join(sorted(stopped_here))} were not stopped by this software, so somebody else has stopped them"
    return None if 0 <= age_ms <= _BELIEVED_MS else "the record is older than a day or of the future, and nothing else says who stopped it"
