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
nothing since before C1, and had committed all it had processed.

Readings count for logs that stay what they are: the caller compares topics, partitions and leaders before and after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.core.kafka_types import CommittedOffset, Consistency, Guarantee, QuiesceMode, TopicPartition
from streams_recovery.core.repository.manifest import CutProof, LogAtCut
from streams_recovery.core.words import first_names


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCut(LogAtCut):
    """One partition at the cut."""

    tp: TopicPartition

    @property
    def tail_start(self) -> int:
        """The start of the unread records of a repartition partition. Without a commit all records are unread."""
        return self.log_start if self.committed is None else self.committed.offset


Offsets = Mapping[TopicPartition, int]
Committed = Mapping[TopicPartition, CommittedOffset | None]


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


def _differing(ends: Offsets, others: Offsets) -> tuple[TopicPartition, ...]:
    return tuple(sorted(tp for tp in {*ends, *others} if ends.get(tp) != others.get(tp)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CutEvidence:
    """The evidence of one attempt at a cut. ``held`` is True if the application was proven idle for the whole attempt. In mode ``stop``: it closed
    cleanly. In mode ``pause``: the same members were paused before and after, for longer than a commit interval. ``why_not_held`` explains False.
    ``writers_transactional`` does not matter if the readings already contradict an exact cut.
    """

    mode: QuiesceMode
    guarantee: Guarantee
    readings: Readings
    held: bool
    why_not_held: str
    writers_transactional: bool


def judge(evidence: CutEvidence) -> tuple[Consistency, tuple[str, ...]]:
    """The label that the evidence supports, and the reasons against ``exact``."""
    readings = evidence.readings
    if not readings.committed_before:
        return Consistency.AHEAD, ("no committed offsets were found to compare",)
    reasons = []
    if not readings.committed_unchanged:
        reasons.append("committed offsets moved between the two reads")
    if readings.open_across:
        reasons.append(f"a transaction was open at the end of {first_names(readings.open_across)}")
    elif readings.moved:
        reasons.append(f"internal topics were written to while the cut was read: {first_names(readings.moved)}")
    transactional = evidence.guarantee is Guarantee.EXACTLY_ONCE_V2 and evidence.writers_transactional
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
    )


def purged_tails(partitions: Mapping[TopicPartition, PartitionCut]) -> tuple[TopicPartition, ...]:
    """Repartition partitions in which unread records were deleted, above the committed offset. Such a cut cannot be used: take another."""
    return tuple(tp for tp, cut in partitions.items() if cut.log_start > cut.tail_start)
