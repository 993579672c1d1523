"""The continuous archive of an application: a log of entries behind its savepoints, and the sum of these entries.

An archiver adds an entry when it has copied records, and once a minute when there were none. Each piece of a partition begins where the one before it ends, so
the entries are the log of the partition from the end of a savepoint on. One that begins elsewhere says why: another topic came under the same name, the log was
truncated, or a savepoint has copied the records itself. What was archived before stays, for as long as the newest savepoint may be restored with it.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Protocol

from streams_recovery.core import codec
from streams_recovery.core.archive.cuts import ArchivedCut, check_file
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.checked import check_epoch, check_partitions
from streams_recovery.core.repository.manifest import CopiedRange, Gap, Manifest, PartitionImage, SegmentFile, TopicImage
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.repository.segment_file import joined

# An entry that has all that is behind a savepoint has a range for each file of it.
MOST_BYTES_OF_ARCHIVE_ENTRY: Final = 32 << 20
# Read at once: an archive that was not joined for an hour is hundreds of entries.
ENTRY_READERS: Final = 16
# Topics whose records an archive has: an application only reads them, and cannot make them again.
ARCHIVED_ROLES: Final = (TopicRole.INPUT, TopicRole.GLOBAL)


class _Topic(Protocol):
    @property
    def role(self) -> TopicRole: ...
    @property
    def archived(self) -> bool: ...


def goes_into_archive(topic: _Topic) -> bool:
    """True if an archiver copies a topic, by its role and by whether savepoints have its records."""
    return topic.role in ARCHIVED_ROLES and topic.archived


def is_state(topic: _Topic) -> bool:
    """True if a topic that the application writes is archived up to a cut: its changelogs, and the outputs that savepoints have."""
    return topic.role in (TopicRole.CHANGELOG, TopicRole.OUTPUT) and topic.archived


class ArchiveEvent(enum.StrEnum):
    """The event of an entry. ``begun``, ``ended``: of an archiver. ``copied``: records came, ``still``: none did. ``asked``: a savepoint waits for what is
    archived by now, and ``joined``: this is all of it, in as few files as it may have. ``kept``: a run uses the present files.
    """

    BEGUN = "begun"
    COPIED = "copied"
    STILL = "still"
    ASKED = "asked"
    KEPT = "kept"
    JOINED = "joined"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedLog:
    """The offsets ``[start, end)`` of one partition: ``ranges`` and ``gaps`` tile them, read in this leader epoch. ``anew`` is why they are not behind what was
    archived before, empty where they are. ``since_epoch`` is the leader epoch in which a log was read anew that was truncated: what a savepoint has of epochs
    before it may be other records. ``deletions_since`` (ms): deletions before it may have been removed unread. An older savepoint may have keys that were
    deleted since, so it does not go on with this log.
    """

    tp: TopicPartition
    topic_id: str
    start: int
    end: int
    leader_epoch: int | None
    ranges: tuple[CopiedRange, ...]
    gaps: tuple[Gap, ...] = ()
    anew: str = ""
    since_epoch: int | None = None
    deletions_since: int | None = None

    def __post_init__(self) -> None:
        pieces = sorted([*((one.start, one.end) for one in self.ranges), *((gap.start, gap.end) for gap in self.gaps)])
        joined = all(left[1] == right[0] for left, right in itertools.pairwise(pieces))
        ordered = all(left.end <= right.start for left, right in itertools.pairwise(self.ranges))
        # A log of nothing says where the archive of a partition begins.
        inside = (pieces[0][0], pieces[-1][1]) == (self.start, self.end) if pieces else 0 <= self.start == self.end
        if not (joined and ordered and inside) or any(one.compacted is not None for one in self.ranges):
            raise Damaged(
                f"the ranges and gaps of {self.tp} are not its log from {self.start} to {self.end}: {pieces[:10]}",
                next_step="do not use this archive; verify the repository, and find out who can write to it",
            )

    @property
    def files(self) -> int:
        return sum(one.file is not None for one in self.ranges)

    def goes_on(self, before: ArchivedLog | None) -> bool:
        """True when it begins where ``before`` ends, in the same log."""
        return before is not None and (before.topic_id, before.end) == (self.topic_id, self.start)

    def replaces(self, image: PartitionImage) -> bool:
        """True when a savepoint with this image is from before the log was truncated."""
        return self.since_epoch is not None and (image.leader_epoch is None or image.leader_epoch < self.since_epoch)

    def is_of_one_before(self, image: PartitionImage) -> bool:
        """True when a savepoint with this image has seen the log end earlier, under a later leader: the log was cut back, and no archiver has read it since."""
        known = self.leader_epoch is not None and image.leader_epoch is not None
        return known and (self.leader_epoch or 0) < (image.leader_epoch or 0) and self.end > image.end

    def up_to(self, at: int) -> ArchivedLog | None:
        """The log before offset ``at``. None if a file has records on both sides of it, or if the offset is outside this log."""
        across = (one.file for one in self.ranges if one.start < at < one.end)
        if not self.start <= at <= self.end or any(file is not None and file.last_offset >= at for file in across):
            return None
        ranges = tuple(replace(one, end=min(one.end, at)) for one in self.ranges if one.start < at)
        gaps = tuple(replace(gap, end=min(gap.end, at)) for gap in self.gaps if gap.start < at)
        return replace(self, end=at, ranges=ranges, gaps=gaps)

    def end_of_file(self, at: int) -> int:
        """The end of the file that has records on both sides of offset ``at``, and ``at`` where none has."""
        files = ((one.end, one.file) for one in self.ranges if one.start < at < one.end)
        return next((end for end, file in files if file is not None and file.last_offset >= at), at)

    def from_boundary(self, at: int) -> ArchivedLog | None:
        """The log behind offset ``at``. None if a file has records on both sides of it, or if the offset is outside this log."""
        across = (one.file for one in self.ranges if one.start < at < one.end)
        if not self.start <= at <= self.end or any(file is not None and file.first_offset < at for file in across):
            return None
        ranges = tuple(replace(one, start=max(one.start, at)) for one in self.ranges if one.end > at)
        gaps = tuple(replace(gap, start=max(gap.start, at)) for gap in self.gaps if gap.end > at)
        return replace(self, start=at, ranges=ranges, gaps=gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveEntry:
    """One entry. ``run`` is the archiver's, or that of the savepoint which asked. An entry that ``joined`` ``answers`` the run that asked; in others this is
    empty. Moments are milliseconds: ``at`` is when the ends of the logs were read, and all records that were committed by ``safe_at`` are archived, None while
    there is no such moment. ``waiting`` records were there and are not archived yet, open transactions included. ``logs`` of an entry that ``joined`` are all
    there are. A restore may begin from a ``cut``; an entry that ``joined`` has the newest cut again, or None if no cut is newer than the newest savepoint, and
    when each cut behind that was captured (``looks``).
    """

    event: ArchiveEvent
    run: str
    at: int
    cluster_id: str
    safe_at: int | None = None
    waiting: int = 0
    answers: str = ""
    logs: tuple[ArchivedLog, ...] = ()
    cut: ArchivedCut | None = None
    looks: tuple[int, ...] | None = field(default=None, metadata=codec.LEFT_OUT)

    @property
    def begins(self) -> bool:
        """True when it needs no entry before it: it has all that there is."""
        return self.event is ArchiveEvent.JOINED

    @property
    def adds(self) -> bool:
        """True when it changes what is archived."""
        return bool(self.logs) or self.cut is not None or self.event is ArchiveEvent.JOINED

    @property
    def files(self) -> tuple[SegmentFile, ...]:
        """The files that it names."""
        copied = tuple(one.file for log in self.logs for one in log.ranges if one.file is not None)
        return copied if self.cut is None else (*copied, *self.cut.files)

    def checked(self, application_id: str, where: str) -> ArchiveEntry:
        """Return this entry. Raises ``Damaged`` for one that names what is not this application's."""
        # Only an entry that has them all may have two of one partition: the log before it came anew, and the one behind.
        whole = self.event is ArchiveEvent.JOINED
        check_partitions("the archive", {log.tp for log in self.logs} if whole else [log.tp for log in self.logs], where=where)
        for log in self.logs:
            check_epoch(log.leader_epoch, what=str(log.tp), where=where)
            for one in log.ranges:
                check_file(one, application_id, log.tp, where)
        if self.cut is not None:
            self.cut.check(application_id, where)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The sum of entries. ``number`` is that of the newest one, 0 when there is none; ``event``, ``at`` and ``safe_at`` are what an archiver said last, and so
    is ``waiting``. ``recorded`` and ``recorded_safe_at`` are number and moment of the newest entry with ``logs``. These are in the order of the entries, the
    one of a partition that goes on last: see ``ArchivedLog.anew``. ``boundaries`` are where they ended when an archiver last began or ``joined``, or when they
    were ``kept``: what is before may be in a savepoint, or in the plan of a restore, and stays as it is. ``asked`` is who waits for an answer, and ``answered``
    who has it. ``cut`` is the newest exact cut, None before the first, and ``looks`` are the moments of those that were kept, the oldest first.
    """

    number: int = 0
    event: ArchiveEvent | None = None
    at: int | None = None
    safe_at: int | None = None
    cluster_id: str = ""
    logs: Mapping[TopicPartition, tuple[ArchivedLog, ...]] = field(default_factory=lambda: MappingProxyType({}))
    boundaries: Mapping[TopicPartition, int] = field(default_factory=lambda: MappingProxyType({}))
    asked: str = ""
    answered: str = ""
    recorded: int = 0
    recorded_safe_at: int | None = None
    waiting: int = 0
    cut: ArchivedCut | None = None
    looks: tuple[int, ...] = ()

    @property
    def exists(self) -> bool:
        """False before an archiver has ever begun."""
        return self.event is not None

    @property
    def runs(self) -> bool:
        """True unless the newest word of an archiver was that it ended."""
        return self.event not in (None, ArchiveEvent.ENDED)

    @property
    def files(self) -> int:
        return sum(log.files for logs in self.logs.values() for log in logs)

    @property
    def keys(self) -> frozenset[str]:
        """The files of all of it."""
        tails = frozenset[str]() if self.cut is None else self.cut.keys
        return tails.union(one.file.key for logs in self.logs.values() for log in logs for one in log.ranges if one.file is not None)

    @property
    def newest(self) -> dict[TopicPartition, ArchivedLog]:
        """The log of each partition that goes on."""
        return {tp: logs[-1] for tp, logs in self.logs.items()}

    def with_entry(self, number: int, entry: ArchiveEntry) -> Archive:
        """The archive with one more entry. Raises ``Damaged`` for one whose records are not behind those before, and that does not say why."""
        added = _Added(self)
        added.add(number, entry)
        return added.archive


class _Added:
    """An archive while entries are added to it. The pieces of a log are put together once, when the log is read: an hour may be thousands of entries."""

    def __init__(self, before: Archive) -> None:
        self._head, self._logs = before, dict(before.logs)
        # The pieces behind the last log of a partition.
        self._behind: dict[TopicPartition, list[ArchivedLog]] = {}

    @property
    def archive(self) -> Archive:
        for tp in list(self._behind):
            self._put_together(tp)
        return replace(self._head, logs=MappingProxyType(dict(self._logs)))

    def _put_together(self, tp: TopicPartition) -> None:
        if pieces := self._behind.pop(tp, ()):
            *before, last = self._logs[tp]
            self._logs[tp] = (*before, _together((last, *pieces)))

    def _end(self, tp: TopicPartition) -> ArchivedLog | None:
        """The last piece of a partition."""
        if pieces := self._behind.get(tp):
            return pieces[-1]
        return self._logs[tp][-1] if tp in self._logs else None

    def add(self, number: int, entry: ArchiveEntry) -> None:
        """Add an entry. Raises ``Damaged``: see ``Archive.with_entry``."""
        head = self._head
        if entry.event is ArchiveEvent.ASKED:
            self._head = replace(head, number=number, asked=entry.run)
            return
        if entry.event is ArchiveEvent.KEPT:
            self._head = replace(head, number=number, boundaries=self._ends())
            return
        whole = entry.event is ArchiveEvent.JOINED
        if whole or entry.cluster_id != head.cluster_id:
            self._logs, self._behind = {}, {}
        for log in entry.logs:
            before = self._end(log.tp)
            if not whole and not log.anew and log.goes_on(before):
                self._behind.setdefault(log.tp, []).append(log)
                continue
            if before is not None and not log.anew:
                raise Damaged(
                    f"entry {number} of the archive has {log.tp} from {log.start} on, and what is before ends at {before.end}",
                    next_step="what is behind this entry is not used; verify the repository, and find out who can write to it",
                )
            self._put_together(log.tp)
            self._logs[log.tp] = (*self._logs.get(log.tp, ()), log)
        looks = () if whole or entry.cluster_id != head.cluster_id else head.looks
        settled = entry.event in (ArchiveEvent.BEGUN, ArchiveEvent.JOINED)
        self._head = replace(
            head,
            number=number,
            event=entry.event,
            at=entry.at,
            safe_at=entry.safe_at,
            waiting=entry.waiting,
            cluster_id=entry.cluster_id,
            boundaries=self._ends() if settled else head.boundaries,
            asked="" if whole else head.asked,
            answered=entry.answers if whole else head.answered,
            recorded=number if entry.adds else head.recorded,
            recorded_safe_at=entry.safe_at if entry.adds else head.recorded_safe_at,
            cut=entry.cut if whole or entry.cut is not None or entry.cluster_id != head.cluster_id else head.cut,
            looks=(*looks, *(entry.looks or (() if entry.cut is None or whole else (entry.cut.captured_at,)))),
        )

    def _ends(self) -> Mapping[TopicPartition, int]:
        return MappingProxyType(
            {tp: logs[-1].end for tp, logs in self._logs.items()} | {tp: some[-1].end for tp, some in self._behind.items()}
        )


def _together(pieces: Sequence[ArchivedLog]) -> ArchivedLog:
    """One log of pieces that go on behind each other."""
    first = pieces[0]
    return replace(
        pieces[-1],
        start=first.start,
        ranges=joined(one for piece in pieces for one in piece.ranges),
        gaps=tuple(gap for piece in pieces for gap in piece.gaps),
        anew=first.anew,
        since_epoch=first.since_epoch,
        deletions_since=max((piece.deletions_since for piece in pieces if piece.deletions_since is not None), default=None),
    )


def archive_of(entries: Iterable[tuple[int, ArchiveEntry]], upto: int | None = None) -> Archive:
    """The archive of these entries with their numbers, from the newest back: none before the last one that ``joined`` is read. With ``upto``, what was archived
    up to the entry of this number, and what was promised of it since.
    """
    needed: list[tuple[int, ArchiveEntry]] = []
    for number, entry in entries:
        if upto is not None and number > upto and entry.adds:
            needed.clear()
            continue
        needed.append((number, entry))
        if entry.event is ArchiveEvent.JOINED:
            break
    found = _Added(Archive())
    for number, entry in reversed(needed):
        found.add(number, entry)
    return found.archive


def kept_files(entries: Iterable[tuple[int, ArchiveEntry]], since: int) -> frozenset[str]:
    """The files of the archive at each ``kept`` entry from ``since`` (ms) on. An open restore is promised these files, also when an archiver has joined them
    meanwhile. ``entries`` are from the newest back.
    """
    needed: list[tuple[int, ArchiveEntry]] = []
    for number, entry in entries:
        needed.append((number, entry))
        if entry.event is ArchiveEvent.JOINED and entry.at < since:
            break
    found, added = set[str](), _Added(Archive())
    for number, entry in reversed(needed):
        added.add(number, entry)
        if entry.event is ArchiveEvent.KEPT and entry.at >= since:
            found |= added.archive.keys
    return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """A savepoint whose inputs and globals go on with what is archived behind it, up to the moment ``safe_at``: so many ``records``, the last of them in the
    entry ``number`` of the archive, which was safe at ``recorded_safe_at``. Those that are ``left`` do not go on, each with the reason.
    """

    manifest: Manifest
    number: int
    recorded_safe_at: int
    safe_at: int
    records: int
    left: tuple[str, ...]


def extended(
    manifest: Manifest, archive: Archive, topics_wanted: Collection[str] | None = None, *, outline: bool = False
) -> Extended | None:
    """``manifest``, read with its ranges, and the archive behind it, of these topics or of all. None if the archive has no newer records, or is of another
    cluster. An ``outline`` is read without them: then partitions only get another end, and more may be ``left`` than with the ranges.
    """
    if archive.safe_at is None or archive.cluster_id != manifest.cluster_id:
        return None
    left: list[str] = []
    found = [
        _topic(topic, archive, left, manifest.captured_at, outline=outline)
        if goes_into_archive(topic) and (topics_wanted is None or topic.name in topics_wanted)
        else (topic, 0)
        for topic in manifest.topics
    ]
    topics, records = tuple(topic for topic, _ in found), sum(added for _, added in found)
    if not left and not records and archive.safe_at <= manifest.captured_at:
        return None
    return Extended(
        manifest=replace(manifest, topics=topics),
        number=archive.recorded,
        recorded_safe_at=manifest.captured_at if archive.recorded_safe_at is None else archive.recorded_safe_at,
        safe_at=archive.safe_at,
        records=records,
        left=tuple(left),
    )


def _topic(topic: TopicImage, archive: Archive, left: list[str], captured_at: int, *, outline: bool) -> tuple[TopicImage, int]:
    images, rows = [], 0
    for image in topic.partitions:
        tp = TopicPartition(topic.name, image.partition)
        found = _longer(image, tp, topic.topic_id, archive.logs.get(tp, ()), captured_at, outline=outline)
        if isinstance(found, str):
            left.append(found)
            images.append(image)
        else:
            images.append(found[0])
            rows += found[1]
            left += found[2]
    known = {image.partition for image in topic.partitions}
    added = sorted(
        tp for tp, log in archive.newest.items() if (tp.topic, log.topic_id) == (topic.name, topic.topic_id) and tp.partition not in known
    )
    left += [f"{tp} was added since the savepoint" for tp in added]
    return replace(topic, partitions=tuple(images)), rows


def _longer(
    image: PartitionImage, tp: TopicPartition, topic_id: str, logs: Sequence[ArchivedLog], captured_at: int, *, outline: bool
) -> tuple[PartitionImage, int, tuple[str, ...]] | str:
    """The image with what is archived behind it, how many rows that adds, and why it does not go on up to the moment that is promised; or why not at all."""
    mine = [log for log in logs if log.topic_id == topic_id]
    if not mine:
        return f"{tp} was created again since the savepoint" if logs else f"{tp} is not in the archive"
    # An older one is of a log that was truncated since: what is promised is not promised of it.
    log = mine[-1]
    if log.deletions_since is not None and log.deletions_since > captured_at:
        return f"nobody had read {tp} for longer than its deletions stay: keys that were deleted would come back"
    if log.is_of_one_before(image):
        return f"{tp} was truncated after it was archived up to {log.end}: the savepoint ends at {image.end} in a later leader epoch"
    other = log.replaces(image)
    # The promise is about the present log. Archived records of an earlier log stay with the savepoint of that log.
    again = () if logs[-1].topic_id == topic_id else (f"{tp} was created again since the savepoint",)
    # A savepoint from before a truncation does not go on with this log: the offset up to which both are the same is unknown.
    first = min((image.archived_from, *(gap.start for gap in image.gaps)))
    ends = (first,) if other else (image.end,) if outline else _ends(image)
    behind = next((found for at in ends if (found := log.from_boundary(at)) is not None), None)
    if behind is None and other:
        return f"{tp} was truncated since the savepoint, which has records from before {log.start}"
    if behind is None:
        return f"what is archived of {tp} begins at {log.start}, and the savepoint ends at {image.end}"
    if log.end <= image.end and not other:
        return image, 0, again
    longer = replace(image, end=log.end, last_stable=max(image.last_stable, log.end), leader_epoch=log.leader_epoch)
    if outline:
        return longer, sum(one.file.rows for one in behind.ranges if one.file is not None), again
    whole = replace(
        longer,
        ranges=Ranges.of((*(one for one in image.ranges if one.end <= behind.start), *behind.ranges)),
        gaps=(*(gap for gap in image.gaps if gap.end <= behind.start), *behind.gaps),
    )
    return whole, whole.rows - image.rows, again


def _ends(image: PartitionImage) -> Iterator[int]:
    """Offsets up to which a savepoint has a partition: its end, and where its pieces end before, because it may have copied the last ones itself."""
    yield image.end
    pieces = sorted({*(one.end for one in image.ranges), *(gap.end for gap in image.gaps), image.archived_from}, reverse=True)
    yield from (at for at in pieces if at < image.end)
