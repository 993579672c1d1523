"""What a manifest says of ranges that were compacted: how, from which savepoint, and the proof that the state is the same."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Compaction(enum.StrEnum):
    """How the rows of a range were chosen from all that were there. ``latest-per-key``: the newest row of each key, see core.compaction."""

    LATEST_PER_KEY = "latest-per-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionProof:
    """That the compacted rows of one partition stand for the state of all its rows. ``keys`` are those of all rows, deleted ones included. The states
    are keys with the newest row of each, counted and digested (SHA-256) before and after; in those of windowed stores deleted keys count.
    """

    topic: str
    partition: int
    rows_before: int
    rows_after: int
    keys: int
    state_before: int
    state_after: int
    digest_before: str
    digest_after: str

    @property
    def holds(self) -> bool:
        """True when something was compared and it was equal. A partition without a row has nothing to compare."""
        compared = self.keys > 0 or self.rows_before == 0
        return compared and (self.state_before, self.digest_before) == (self.state_after, self.digest_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedFrom:
    """The savepoint that this one was made from without asking the cluster, and the proof of every partition that was compacted."""

    savepoint_id: str
    proofs: tuple[CompactionProof, ...]

    @property
    def proven(self) -> bool:
        """True when every proof holds and at least one key was compared."""
        return all(proof.holds for proof in self.proofs) and any(proof.keys for proof in self.proofs)
