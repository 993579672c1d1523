"""The work of an archiver. One look at its logs: what is to be copied, where an archive begins anew, and up to which moment nothing is missing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Self

from streams_recovery.core.archive.log import Archive, ArchivedLog, goes_into_archive, is_state
from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.spec import BackupResult, RangeCopied, RangeLost, RangeToCopy
from streams_recovery.core.kafka_types import TopicPartition, truncation, unproven
from streams_recovery.core.repository.manifest import Gap, Manifest
from streams_recovery.core.repository.segment_file import GONE_BEFORE, GONE_MEANWHILE, joined

# How long an archiver that says nothing is believed to be there. Well above what one look takes, well below what anybody wants to lose.
ARCHIVER_LEASE_SECONDS: Final = 90
# Even when nothing came: so that silence means that the archiver is gone.
HEARTBEAT_SECONDS: Final = 60
# A savepoint asks for its files joined; without savepoints they are joined as often.
JOIN_SECONDS: Final = 3600
# For so long an archiver is at work, then the next one begins.
HAND_OVER_SECONDS: Final = 86_400.0
# A joined file is removed after this time: a reader that had begun with it is done.
REPLACED_SECONDS: Final = 3600
# Files stay for so long after a run said that it uses them, and so do the entries that name them.
KEPT_SECONDS: Final = 3 * 86_400
_MOST_LOOKS: Final = 256


def is_at_work(archive: Archive, now: int) -> bool:
    """True if an archiver has written an entry lately, for whatever cluster. An archiver whose clock is far ahead of ``now`` counts as gone."""
    silence = 1000 * (HEARTBEAT_SECONDS + ARCHIVER_LEASE_SECONDS)
    return archive.runs and archive.at is not None and abs(now - archive.at) < silence


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNow:
    """A partition as its broker shows it. ``high`` is its end, records of open transactions included, ``last_stable`` where the first of these begins.
    ``epoch_end`` is where the records end that were written up to the leader epoch of what is archived; None when it cannot be told.
    """

    tp: TopicPartition
    topic_id: str
    leader_epoch: int | None
    log_start: int
    last_stable: int
    high: int
    epoch_end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTo:
    """The end of what is archived of a partition, in its log. ``anew`` says why that is not where the archive itself ends, empty where it is."""

    topic_id: str
    end: int
    leader_epoch: int | None
    anew: str = ""

    @classmethod
    def of(cls, log: ArchivedLog) -> Self:
        """The end of this log."""
        return cls(topic_id=log.topic_id, end=log.end, leader_epoch=log.leader_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class TickLimits:
    """At most ``records`` are copied at once, and ``payload`` bytes of keys and values (None is no limit), in files of ``file_records`` at most: what is left
    comes with the next look, and a crash costs no more.
    """

    records: int
    file_records: int
    payload: int | None = None

    def of_records(self, mean: float) -> TickLimits:
        """These limits, that of bytes as one of records that have ``mean`` bytes each."""
        if self.payload is None:
            return self
        return replace(self, records=max(1, min(self.records, int(self.payload / max(mean, 1.0)))))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSpec:
    """Archive these ``topics`` every ``interval_seconds``, for ``hand_over_seconds``; then the next archiver begins. ``run`` is who archives. With
    ``cut_seconds`` changelogs too, of an application of exactly once, up to an exact cut each time that these are over. None is no cut. ``name`` is the
    application's in the configuration, for commands, and ``site`` where the archiver works: it ends when the application belongs to another one; empty where
    no other one is configured. ``outputs`` are what the configuration says that the application writes.
    """

    application_id: str
    name: str
    site: str
    run: str
    topics: tuple[str, ...]
    interval_seconds: float
    hand_over_seconds: float
    limits: TickLimits
    compression_level: int
    cut_seconds: float | None = None
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveResult:
    """The result of one archiver: entries that it has added, and records that it has copied."""

    entries: int
    records: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TickPart:
    """One partition in a look, which copies ``[start, end)`` behind ``gap``. ``anew`` is why that is not behind what is archived, empty when it is.
    ``truncated``: because the log was cut back. ``deletions_since``: see ``ArchivedLog``.
    """

    now: LogNow
    start: int
    end: int
    gap: Gap | None = None
    anew: str = ""
    truncated: bool = False
    deletions_since: int | None = None

    @property
    def begins(self) -> int:
        """The start of its entry."""
        return self.start if self.gap is None else self.gap.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One look. ``parts`` are partitions of which something is to be said, and ``waiting`` records stay behind for the next one. ``reached`` is up to where
    each partition is archived in the log that it is now, once the look has copied.
    """

    parts: tuple[TickPart, ...]
    waiting: int
    limits: TickLimits
    reached: Mapping[TopicPartition, int]

    @property
    def ranges(self) -> tuple[RangeToCopy, ...]:
        """The ranges to copy, the largest backlog divided into several."""
        step = self.limits.file_records
        return tuple(
            RangeToCopy(tp=part.now.tp, start=start, end=min(start + step, part.end), size_hint=min(step, part.end - start), may_lose=True)
            for part in self.parts
            for start in range(part.start, part.end, step)
        )

    @property
    def begun_anew(self) -> tuple[str, ...]:
        """Partitions whose archive begins anew, each with the reason."""
        return tuple(f"{part.now.tp}: {part.anew}" for part in self.parts if part.anew)

    @property
    def gaps(self) -> tuple[str, ...]:
        """Records that were gone before they could be archived."""
        return tuple(f"{part.now.tp} [{part.gap.start}, {part.gap.end})" for part in self.parts if part.gap is not None)


def archived_to(
    archive: Archive, base: Manifest | None, ids: Mapping[str, str], *, state: bool = False
) -> dict[TopicPartition, ArchivedTo]:
    """The ends behind which an archiver goes on: the archive's, or that of the savepoint ``base`` if the archive does not go on from it. A savepoint may have
    copied records itself, may be merged across the end of a file, or may alone know the topic. ``base`` is the newest savepoint of this cluster, None without
    one, and ``ids`` are those of the present topics. With ``state`` also the ends of topics that the application writes.
    """
    newest = archive.newest
    found = {tp: ArchivedTo.of(log) for tp, log in newest.items()}
    if base is None:
        return found
    for topic, image in ((one, image) for one in base.topics for image in one.partitions):
        tp = TopicPartition(topic.name, image.partition)
        log = newest.get(tp)
        if not (goes_into_archive(topic) or (state and is_state(topic))) or (log is not None and ids.get(topic.name) != topic.topic_id):
            continue
        if log is not None and log.topic_id == topic.topic_id and log.replaces(image):
            # It is a log that was cut back, and the savepoint is of the one before: it goes on where it is.
            continue
        if log is None or log.topic_id != topic.topic_id or log.from_boundary(image.end) is None:
            anew = "" if log is None else f"it goes on behind savepoint {base.savepoint_id}"
            found[tp] = ArchivedTo(topic_id=topic.topic_id, end=image.end, leader_epoch=image.leader_epoch, anew=anew)
    return found


def plan_tick(
    logs: Iterable[LogNow],
    archived: Mapping[TopicPartition, ArchivedTo],
    limits: TickLimits,
    *,
    late: Mapping[str, int] = MappingProxyType({}),
) -> Tick:
    """The look that copies ``logs`` behind what is ``archived``. Where there is more than the limit every partition gets a part of it. ``late`` are topics
    of which deletions may be gone since the look before, and the moment (ms) of this one: see ``core.repository.cleaning``.
    """
    several = [replace(_part(now, archived.get(now.tp)), deletions_since=late.get(now.tp.topic)) for now in logs]
    backlog = sum(part.end - part.start for part in several)
    share = min(1.0, limits.records / backlog) if backlog else 1.0
    parts = [_shortened(part, share) for part in several]
    waiting = sum(max(part.now.high - part.end, 0) for part in parts)
    said = (part for part in parts if part.begins < part.end or part.anew or part.now.tp not in archived)
    return Tick(parts=tuple(said), waiting=waiting, limits=limits, reached={part.now.tp: part.end for part in parts})


def _part(now: LogNow, before: ArchivedTo | None) -> TickPart:
    anew = None if before is None else _why_anew(now, before)
    if before is None or anew is not None:
        cut_back = before is not None and before.topic_id == now.topic_id
        # Whatever was cut back: what is between was never read.
        lost = before is not None and cut_back and before.end < now.log_start
        return TickPart(
            now=now,
            start=now.log_start,
            end=max(now.last_stable, now.log_start),
            anew=anew or "",
            truncated=cut_back,
            gap=Gap(start=before.end, end=now.log_start, reason=GONE_BEFORE) if before is not None and lost else None,
        )
    end = max(now.last_stable, before.end)
    if now.log_start <= before.end:
        return TickPart(now=now, start=before.end, end=end, anew=before.anew)
    start = min(now.log_start, end)
    return TickPart(
        now=now,
        start=start,
        end=end,
        anew=before.anew,
        gap=Gap(start=before.end, end=start, reason=GONE_BEFORE) if start > before.end else None,
    )


def _why_anew(now: LogNow, before: ArchivedTo) -> str | None:
    if now.topic_id != before.topic_id:
        return f"the topic was created again: id {before.topic_id} became {now.topic_id}"
    if now.high < before.end:
        return f"the log ends at {now.high}, before the archive's {before.end}: it was truncated"
    cut_back = truncation(seen=before.leader_epoch, upto=before.end, now=now.leader_epoch, epoch_end=now.epoch_end)
    if cut_back is not None:
        return f"the log was truncated: {cut_back}"
    doubt = unproven(seen=before.leader_epoch, upto=before.end, now=now.leader_epoch, log_start=now.log_start)
    return None if doubt is None else f"the log may have been truncated: {doubt}"


def _shortened(part: TickPart, share: float) -> TickPart:
    wanted = part.end - part.start
    if share >= 1 or not wanted:
        return part
    # At least one record, or a partition with few would wait for as long as another one has many.
    return replace(part, end=part.start + max(1, int(wanted * share)))


def archived_logs(tick: Tick, result: BackupResult | None) -> tuple[ArchivedLog, ...]:
    """The logs of an entry on a look, once its ranges were copied. Raises ``Damaged`` unless they are all there, whole, and nothing else is."""
    copied: dict[TopicPartition, list[RangeCopied]] = {}
    lost: dict[TopicPartition, list[RangeLost]] = {}
    for piece in () if result is None else result.ranges:
        copied.setdefault(piece.tp, []).append(piece)
    for gone in () if result is None else result.lost:
        lost.setdefault(gone.tp, []).append(gone)
    unasked = sorted({*copied, *lost} - {part.now.tp for part in tick.parts})
    if unasked:
        raise Damaged(f"{unasked[0]} was copied, and nobody asked for it", next_step="nothing was recorded; start the archiver again")
    return tuple(_archived(part, copied.get(part.now.tp, ()), lost.get(part.now.tp, ())) for part in tick.parts)


def _archived(part: TickPart, copied: Sequence[RangeCopied], lost: Sequence[RangeLost]) -> ArchivedLog:
    gaps = [] if part.gap is None else [part.gap]
    return ArchivedLog(
        tp=part.now.tp,
        topic_id=part.now.topic_id,
        start=part.begins,
        end=part.end,
        leader_epoch=part.now.leader_epoch,
        ranges=joined(piece.copied for piece in copied),
        anew=part.anew,
        since_epoch=part.now.leader_epoch if part.truncated else None,
        deletions_since=part.deletions_since,
        gaps=(*gaps, *(Gap(start=gone.start, end=gone.end, reason=GONE_MEANWHILE) for gone in lost)),
    )


@dataclass(slots=True)
class Safety:
    """The moment up to which all that was committed is archived. A look notes where the logs ended; that moment is safe once everything up to there is
    archived, whatever came in between: a backlog, or a transaction that stayed open. Looks at these logs say how far they are archived, never the ends of
    earlier logs.
    """

    _looks: list[tuple[int, dict[TopicPartition, int]]] = field(default_factory=list)
    _safe_at: int | None = None

    @classmethod
    def after(cls, archive: Archive) -> Self:
        """The promise of an archiver that begins: that of its predecessor."""
        return cls(_safe_at=archive.safe_at)

    def forget(self) -> None:
        """Forget looks and promise: they are about logs that are gone, and less of the new logs may be archived by now."""
        self._looks.clear()
        self._safe_at = None

    @property
    def promised(self) -> int | None:
        """The newest moment that was found safe, None before one was."""
        return self._safe_at

    def look(self, at: int, high: Mapping[TopicPartition, int]) -> None:
        """Note the ends of the logs, read at a moment after ``at`` (ms)."""
        self._looks.append((at, dict(high)))
        # As many as an archive that lags for hours would gather say nothing more than some of them.
        if len(self._looks) > _MOST_LOOKS:
            del self._looks[1::2]

    def safe_at(self, archived: Mapping[TopicPartition, int]) -> int | None:
        """The newest moment that is safe once partitions are archived up to there: see ``Tick.reached``. None when none is."""
        safe = itertools.takewhile(lambda look: _covers(archived, look[1]), self._looks)
        return max((at for at, _ in safe), default=self._safe_at)

    def recorded(self, archived: Mapping[TopicPartition, int]) -> None:
        """Count this as promised: it is stored that partitions are archived up to there."""
        while self._looks and _covers(archived, self._looks[0][1]):
            self._safe_at = self._looks.pop(0)[0]


def _covers(archived: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
    return all(archived.get(tp, 0) >= end for tp, end in ends.items())
