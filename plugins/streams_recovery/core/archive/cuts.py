"""Exact cuts of a running application that an archiver has taken. The newest one is in the archive itself; each is kept beside it, for restores to a moment.

A cut is small: its changelogs are the archived ones up to earlier ends, and only the unread records of repartition topics are files of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.checked import check_epoch, check_names, check_partitions, check_segment_key
from streams_recovery.core.repository.manifest import CopiedRange, CutProof, PartitionCut, SegmentFile

# One a minute is a day of them.
MOST_CUTS: Final = 1_440


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTail:
    """The unread records of a partition that the application writes to itself."""

    tp: TopicPartition
    copied: CopiedRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedCut:
    """An exact cut of a running application, at the moment ``captured_at``. ``topics`` are those it is through, their ids by name; ``inputs`` are
    the partitions of those that the application only reads, and ``written`` of the others. The records of changelogs and archived outputs up to their ends are
    in the ``logs`` of entries, this one's included; ``tails`` are of repartition topics, without what a proof by ``names`` leaves out of them.
    """

    captured_at: int
    proof: CutProof
    topics: dict[str, str]
    inputs: tuple[PartitionCut, ...]
    written: tuple[PartitionCut, ...]
    tails: tuple[ArchivedTail, ...]

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The end of each partition that was written."""
        return {part.tp: part.end for part in self.written}

    @property
    def files(self) -> tuple[SegmentFile, ...]:
        """The files of its tails."""
        return tuple(tail.copied.file for tail in self.tails if tail.copied.file is not None)

    @property
    def keys(self) -> frozenset[str]:
        """The keys of these."""
        return frozenset(file.key for file in self.files)

    def read_no_later(self, first_later: Mapping[TopicPartition, int | None]) -> bool:
        """True if nothing had been read by then at or behind the first later record of an input; None where there is none."""
        known = ((part.committed, first_later.get(part.tp)) for part in self.inputs)
        return all(read is None or first is None or read.offset <= first for read, first in known)

    def check(self, application_id: str, where: str) -> None:
        """Raise ``Damaged`` where it names what is not this application's."""
        parts = (*self.inputs, *self.written)
        check_names("topic", list(self.topics), where=where)
        check_partitions("a cut", [one.tp for one in parts], where=where)
        check_partitions("a tail", [one.tp for one in self.tails], where=where)
        for part in parts:
            check_epoch(part.leader_epoch, what=str(part.tp), where=where)
        if self.proof.names is not None:
            self.proof.names.check(self.ends, where)
        for tail in self.tails:
            check_file(tail.copied, application_id, tail.tp, where)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCut:
    """One entry: a ``cut`` of the application on this cluster."""

    cluster_id: str
    cut: ArchivedCut

    @property
    def begins(self) -> bool:
        """True: no entry needs the one before it."""
        return True

    @property
    def files(self) -> tuple[SegmentFile, ...]:
        """The files that it names."""
        return self.cut.files

    def checked(self, application_id: str, where: str) -> KeptCut:
        """Return this entry. Raises ``Damaged`` for one that names what is not this application's."""
        self.cut.check(application_id, where)
        return self


def check_file(piece: CopiedRange, application_id: str, tp: TopicPartition, where: str) -> None:
    """Raise ``Damaged`` for a file that is not of this partition, or whose numbers cannot be."""
    if piece.file is None:
        return
    check_segment_key(piece.file.key, application_id, tp, where=where)
    if not piece.file.possible:
        raise piece.file.damaged("cannot have the numbers that the archive says of it")
