"""The cut: what was read, in which order, and what it proves.

Order of reading, the same for every guarantee: committed offsets C1, then ends E, then wait until every last stable offset has reached E, then
committed offsets C2. Everything that input below C1 caused was acknowledged before C1 became visible, so it lies below E. That makes a
cut complete; whether it is also free of effects of later input is for ``judge`` to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.core.manifest import CutProof
from streams_recovery.core.model import CommittedOffset, Consistency, Guarantee, QuiesceMode, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCut:
    """One partition at the cut; see ``PartitionImage`` for the fields."""

    topic: str
    partition: int
    log_start: int
    last_stable: int
    end: int
    leader_epoch: int | None
    committed: CommittedOffset | None

    @property
    def tp(self) -> TopicPartition:
        """The log this is about."""
        return TopicPartition(self.topic, self.partition)

    @property
    def tail_start(self) -> int:
        """Where the unread part of a repartition partition begins. Without a commit nothing was read yet."""
        return self.log_start if self.committed is None else self.committed.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Last stable offsets and high watermarks of the internal partitions, read one after the other."""

    last_stable: Mapping[TopicPartition, int]
    high_watermark: Mapping[TopicPartition, int]

    @property
    def no_open_transaction(self) -> bool:
        """True when no partition had a transaction open. The last stable offset is read first, so equality is proof."""
        return dict(self.last_stable) == dict(self.high_watermark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one attempt at a cut saw. ``held`` is True when the application was proven still for the whole attempt: closed cleanly in mode
    ``stop``; in mode ``pause`` the same members paused before and after, for longer than a commit interval. ``why_not_held`` explains False.
    """

    mode: QuiesceMode
    guarantee: Guarantee
    committed_before: Mapping[TopicPartition, CommittedOffset | None]
    committed_after: Mapping[TopicPartition, CommittedOffset | None]
    first: Reading
    second: Reading
    held: bool
    why_not_held: str
    writers_transactional: bool

    @property
    def committed_unchanged(self) -> bool:
        """True when no committed offset or metadata moved between the two reads."""
        return dict(self.committed_before) == dict(self.committed_after)

    @property
    def still(self) -> bool:
        """True when two reads of all internal partitions agree and neither saw an open transaction."""
        return self.first == self.second and self.first.no_open_transaction


def judge(evidence: Evidence) -> tuple[Consistency, tuple[str, ...]]:
    """The label the evidence supports, and the reasons against ``exact``.

    Unchanged committed offsets alone prove nothing: under at_least_once a live application writes changelogs between commits, and under
    exactly_once_v2 a transaction of a punctuator moves state without moving offsets. So besides them the application must have been held
    still, or every changelog must be written in transactions only and no transaction may have touched the cut.
    """
    if not evidence.committed_before:
        return Consistency.AHEAD, ("no committed offsets were found to compare",)
    reasons = []
    if not evidence.committed_unchanged:
        reasons.append("committed offsets moved between the two reads")
    if not evidence.still:
        reasons.append("internal topics moved, or a transaction was open, between the two reads")
    transactional = evidence.guarantee is Guarantee.EXACTLY_ONCE_V2 and evidence.writers_transactional
    if not evidence.held and not transactional:
        reasons.append(f"{evidence.why_not_held}, and the changelog writers are not proven transactional")
    return (Consistency.AHEAD if reasons else Consistency.EXACT), tuple(reasons)


def proof(evidence: Evidence, *, held_seconds: float, attempts: int) -> tuple[Consistency, CutProof]:
    """The label with the proof that goes into the manifest. Only for cuts whose last stable offsets reached their ends: no other may be published."""
    consistency, reasons = judge(evidence)
    return consistency, CutProof(
        mode=evidence.mode,
        committed_unchanged=evidence.committed_unchanged,
        stable_reached=True,
        still_between_reads=evidence.still,
        held_seconds=round(held_seconds, 3),
        attempts=attempts,
        reasons=reasons,
    )


def purged_tails(partitions: Mapping[TopicPartition, PartitionCut]) -> tuple[TopicPartition, ...]:
    """Repartition partitions whose unread records were deleted below the committed offset: such a cut cannot be used, take another."""
    return tuple(tp for tp, cut in partitions.items() if cut.log_start > cut.tail_start)
