"""Cutting a log where it is: the part behind a moment is taken out of it, by deleting it and making it again from its archive.

That is for a log that nobody writes to, that is archived from its first record to its last, and whose other readers are known. What comes out
stays in the archive, can be put behind the log again, and is written down as a quarantine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import PartitionImage, SegmentFile
from streams_recovery.core.restore.point_in_time import RowCut

_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterPartition:
    """Records of one partition that do not belong to the moment: those rows of these files, in order, that the cut takes."""

    partition: int
    files: tuple[SegmentFile, ...]
    cut: RowCut

    @property
    def rows(self) -> int:
        """How many."""
        return self.cut.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterTopic:
    """The later records of one topic. Partitions without any are left out."""

    name: str
    partitions: tuple[LaterPartition, ...]

    @property
    def rows(self) -> int:
        """How many, all partitions together."""
        return sum(partition.rows for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedOffset:
    """A committed offset of another group on a log that is cut: where it is, and where it points in what is left. ``again`` records that it has
    read come out; it reads them once more when they are appended again.
    """

    group: str
    topic: str
    partition: int
    before: int
    offset: int
    metadata: str
    again: int

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """What is done to inputs where they are. ``ends`` (by ``<topic> <partition>``) are those of all inputs: proven to stand still for ``still_seconds``,
    and archived up to there. ``later`` topics are made again without these records, and ``groups`` are translated.
    """

    still_seconds: float
    ends: dict[str, int]
    later: tuple[LaterTopic, ...]
    groups: tuple[MovedOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineEntry:
    """One entry of a quarantine. ``set-aside`` comes before the logs are cut: which records of savepoint ``savepoint_id`` come out. ``begins`` comes
    before they are appended again, behind ``ends`` (by ``<topic> <partition>``); ``appended`` when they are all there.
    """

    kind: Literal["set-aside", "begins", "appended"]
    at: int
    run: str
    savepoint_id: str
    moment: int
    topics: tuple[LaterTopic, ...] = ()
    ends: dict[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """What is known of the later records of one restore. ``begun`` has the ends behind which they are being appended, None before that."""

    restore_id: str
    savepoint_id: str
    moment: int
    topics: tuple[LaterTopic, ...]
    begun: dict[str, int] | None
    appended_at: int | None


def quarantine_of(restore_id: str, entries: tuple[QuarantineEntry, ...]) -> Quarantine:
    """What these entries say. Raises ``NotFound`` without any: such a restore has set nothing aside."""
    if not entries:
        raise NotFound(
            f"restore {restore_id} has set no input aside",
            next_step="choose a restore to a moment that was made in place and had later input",
            restore=restore_id,
        )
    first = entries[0]
    # The first one: an append that goes on behind another one writes none, so what comes later is not of an append.
    begun = next((entry.ends for entry in entries if entry.kind == "begins"), None)
    appended = next((entry.at for entry in entries if entry.kind == "appended"), None)
    return Quarantine(
        restore_id=restore_id, savepoint_id=first.savepoint_id, moment=first.moment, topics=first.topics, begun=begun, appended_at=appended
    )


def uncovered(tp: TopicPartition, image: PartitionImage, start: int, end: int) -> str | None:
    """Why a log from ``start`` to ``end`` cannot be made again from its archive, None when it can: every offset of it must be there."""
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
    """Raise ``Refused`` naming logs that two looks, so far apart, saw differently. Nothing looked at proves nothing."""
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
