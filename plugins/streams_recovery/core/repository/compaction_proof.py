"""Origin of a savepoint that was made from another one without the cluster, and the proof that both are equal: compacted ranges in their state, merged ranges
in each record, rescaled topics in the newest value of each key.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from streams_recovery.core.kafka_types import KeyForm, TopicPartition


class Compaction(enum.StrEnum):
    """The choice of the rows of a range. ``latest-per-key``: the newest row of each key, see core.compaction."""

    LATEST_PER_KEY = "latest-per-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """Rows of a partition that were written again: how many there were before and after, and a digest (SHA-256) of what has to be the same in both."""

    tp: TopicPartition
    rows_before: int
    rows_after: int
    digest_before: str
    digest_after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionProof(Rewritten):
    """The proof that the compacted rows of one partition have the same state as all its rows. ``keys`` counts the keys of all rows, including deleted
    ones. The states are counts, and the digests are those, of the newest row of each key. For windowed stores they include deleted keys.
    """

    keys: int
    state_before: int
    state_after: int

    @property
    def holds(self) -> bool:
        """True if keys were compared and are equal. A partition without rows has nothing to compare."""
        compared = self.keys > 0 or self.rows_before == 0
        return compared and (self.state_before, self.digest_before) == (self.state_after, self.digest_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedFrom:
    """The savepoint that this one was made from, without the cluster, and the proof of every compacted partition."""

    savepoint_id: str
    proofs: tuple[CompactionProof, ...]

    @property
    def proven(self) -> bool:
        """True if every proof holds and at least one key was compared."""
        return all(proof.holds for proof in self.proofs) and any(proof.keys for proof in self.proofs)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeProof(Rewritten):
    """The proof that the one file of the range ``[start, end)`` of a partition has every record of the ``files`` that it was merged from, in their order. The
    digests are over offset, timestamp and its type, key, value and headers of every record.
    """

    start: int
    end: int
    files: int

    @property
    def holds(self) -> bool:
        """True if records were compared and are equal."""
        same = (self.rows_before, self.digest_before) == (self.rows_after, self.digest_after)
        return same and self.rows_before > 0 and self.files > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedFrom:
    """The savepoint that this one was made from by merging small files, who requested the merge and why, and the proof of every merged range."""

    savepoint_id: str
    requested_by: str
    reason: str
    proofs: tuple[MergeProof, ...]

    @property
    def proven(self) -> bool:
        """True if there are proofs and every one of them holds."""
        return bool(self.proofs) and all(proof.holds for proof in self.proofs)


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaledLog:
    """A topic whose records were placed anew: its numbers of partitions ``old`` and ``new``, and the ``form`` of its keys that all records were proven to obey,
    None without a record that has a key. ``records`` were placed. Keys are counted, and the digests are over all records and the newest value of each key,
    wherever they lie.
    """

    topic: str
    old: int
    new: int
    form: KeyForm | None
    records: int
    keys_before: int
    keys_after: int
    digest_before: str
    digest_after: str

    @property
    def holds(self) -> bool:
        """True if both sides have the same keys with the same newest values."""
        same = (self.keys_before, self.digest_before) == (self.keys_after, self.digest_after)
        return same and (self.keys_before > 0 or self.form is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaledFrom:
    """The savepoint that this one was made from by placing records anew, and the proof of every topic whose records were placed."""

    savepoint_id: str
    topics: tuple[RescaledLog, ...]

    @property
    def proven(self) -> bool:
        """True if there are topics and every proof holds."""
        return bool(self.topics) and all(one.holds for one in self.topics)
