"""Cuts a log in place: the records after a moment are removed, by deleting the topic and creating it again from its archive.

This requires that no producer writes to the log, that it is archived from its first record to its last, and that its other readers are known. The
removed records stay in the archive, can be appended to the log again, and are recorded as a quarantine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.jobs.spec import RowCut
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.repository.manifest import PartitionImage
from streams_recovery.core.repository.segment_files import SegmentFiles

_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterPartition:
    """Records of one partition that do not belong to the moment: the rows of ``files``, in order, that ``cut`` selects."""

    partition: int
    files: SegmentFiles
    cut: RowCut

    @property
    def rows(self) -> int:
        """Number of later records."""
        return self.cut.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterTopic:
    """The later records of one topic. Partitions without later records are left out."""

    name: str
    partitions: tuple[LaterPartition, ...]

    @property
    def rows(self) -> int:
        """Number of later records in all partitions."""
        return sum(partition.rows for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedOffset:
    """A committed offset of another group on a log that is cut, before and after. ``again`` counts removed records that the group had read. It reads
    these again if they are appended. The metadata stays as long as the offset stands for the same records. Kafka Streams keeps the stream time in it: what
    is read again would lie before that, and nothing would be emitted for it.
    """

    group: str
    tp: TopicPartition
    before: int
    wanted: CommittedOffset
    again: int

    @classmethod
    def of(cls, group: str, tp: TopicPartition, known: CommittedOffset, *, offset: int, again: int) -> Self:
        """The offset as it will be, where ``again`` of the records below the ``known`` one are removed."""
        wanted = CommittedOffset(offset=offset, metadata="" if again else known.metadata)
        return cls(group=group, tp=tp, before=known.offset, wanted=wanted, again=again)


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """The changes of the inputs. ``ends`` are those of all inputs, proven unchanged for ``still_seconds`` and archived
    up to there. ``later`` topics are created again without these records, and offsets of ``groups`` are translated. ``begin_anew`` are the topics of share
    groups whose position goes with the topic: they read these again from where ``share.auto.offset.reset`` says. ``unseen`` are live groups of which
    nobody can tell what they read, and that were named.
    """

    still_seconds: float
    ends: dict[TopicPartition, int]
    later: tuple[LaterTopic, ...]
    groups: tuple[MovedOffset, ...]
    begin_anew: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherGroup:
    """What is known of another group and of the inputs that are cut: those that it ``reads`` now, None where nobody can tell; the partitions on which
    it has ``committed`` offsets; and the inputs in which the cluster keeps its position as a share group. ``members`` are the first of those that live,
    and ``named`` says that the request names it.
    """

    name: str
    reads: frozenset[str] | None
    committed: tuple[TopicPartition, ...]
    shares: frozenset[str]
    members: tuple[str, ...]
    named: bool

    @property
    def live(self) -> bool:
        """True when members of it read one of these inputs, or would go on to from their offsets: cutting it under them is never confirmed."""
        return bool(self.members) and bool(self.reads or self.committed)

    @property
    def unnamed(self) -> frozenset[str]:
        """The inputs for which somebody has to name it, so that it is known to whom this happens."""
        return frozenset() if self.named else self.shares.union(tp.topic for tp in self.committed)

    @property
    def problems(self) -> list[str]:
        """What blocks cutting these inputs."""
        unnamed = ", ".join(sorted(self.unnamed))
        found = []
        if self.live:
            reads = f" of {', '.join(sorted(self.reads))}" if self.reads else ""
            found.append(f"group {self.name} has members{reads} ({', '.join(self.members)}): stop them")
        elif self.members and self.reads is None and not self.named:
            found.append(
                f"what the members of group {self.name} read cannot be told ({', '.join(self.members)}): stop them, or name it (groups)"
            )
        if self.unnamed:
            found.append(f"group {self.name} has read {unnamed}: name it (groups) to move it too")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineEntry:
    """One entry of a quarantine. ``set-aside`` is written before the logs are cut, and says which records of savepoint ``savepoint_id`` are removed.
    ``begins`` is written before they are appended again, after ``ends``. ``appended`` is written when all are there.
    """

    kind: Literal["set-aside", "begins", "appended"]
    at: int
    run: str
    savepoint_id: str
    moment: int
    topics: tuple[LaterTopic, ...] = ()
    ends: dict[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """The later records of one restore. ``begun`` has the ends after which they are being appended, None before that."""

    restore_id: str
    savepoint_id: str
    moment: int
    topics: tuple[LaterTopic, ...]
    begun: dict[TopicPartition, int] | None
    appended_at: int | None


def quarantine_of(restore_id: str, entries: tuple[QuarantineEntry, ...]) -> Quarantine:
    """The quarantine that these entries describe. Raises ``NotFound`` without any entry: that restore has removed no input."""
    if not entries:
        raise NotFound(
            f"restore {restore_id} has set no input aside",
            next_step="choose a restore to a moment that was made in place and had later input",
            restore=restore_id,
        )
    first = entries[0]
    # Take the first: an append that continues another one writes no `begins` entry.
    begun = next((entry.ends for entry in entries if entry.kind == "begins"), None)
    appended = next((entry.at for entry in entries if entry.kind == "appended"), None)
    return Quarantine(
        restore_id=restore_id, savepoint_id=first.savepoint_id, moment=first.moment, topics=first.topics, begun=begun, appended_at=appended
    )


def uncovered(tp: TopicPartition, image: PartitionImage, start: int, end: int) -> str | None:
    """Why a log from ``start`` to ``end`` cannot be created again from its archive, None if it can. Every offset must be archived."""
    first = image.archived_from
    if end != image.end:
        return f"{tp} ends at {end} and is archived up to {image.end}"
    if first > start:
        return f"{tp} begins at {start} and is archived from {first}"
    missing = [gap for gap in image.gaps if gap.end > start]
    if missing:
        return f"offsets {missing[0].start}..{missing[0].end - 1} of {tp} are missing from the archive ({missing[0].reason})"
    return None


def check_stood_still(first: Mapping[TopicPartition, Any], second: Mapping[TopicPartition, Any], seconds: float) -> None:
    """Raise ``Refused`` for logs that changed between two readings, ``seconds`` apart. No reading at all proves nothing, and is refused too."""
    moved = sorted(str(tp) for tp in {*first, *second} if tp not in first or tp not in second or first[tp] != second[tp])
    if not first:
        raise Refused("no log was looked at", next_step="check topics.inputs in the configuration")
    if moved:
        named = ", ".join(moved[:_NAMED]) + (f" and {len(moved) - _NAMED} more" if len(moved) > _NAMED else "")
        raise Refused(
            f"a producer writes to {named}: within {seconds:g} s something came",
            next_step="nothing was changed; stop every producer of the inputs, take a savepoint, and begin again",
            topics=moved,
        )
