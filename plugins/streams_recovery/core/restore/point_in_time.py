"""Cuts a log at a moment T: which of its archived records belong to T, and which savepoints had read nothing later.

By timestamp, every record of T or earlier belongs to T, even if it came after a later record. By position, every record before the first later one
belongs to T: that was the log when the later record arrived. The timestamps in the manifest decide about most files. Only files with records on both
sides of T are read.

A timestamp may come from a wrong clock. A record that a savepoint holds was written before that savepoint was captured, so it is no later than that,
whatever its timestamp says.

A log may also be cut in place: it is deleted and created again from its archive, without the records after T. This requires that no producer writes to the
log, that it is archived from its first record to its last, and that its other readers are known. The removed records stay in the archive, can be
appended to the log again, and are recorded as a quarantine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.jobs.spec import CutBy, RowCut
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Gap, Manifest, PartitionImage, SegmentFile, TopicImage
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.words import first_names

# The clocks of producers and of this software may differ by so much.
CLOCK_DIFFERENCE_MS: Final = 60_000
# The ends of inputs are read when a cut has settled, which is after its time by the longest transaction at most.
# Brokers allow a transaction 15 minutes by default (transaction.max.timeout.ms).
SETTLED_MS: Final = 900_000
# Roles of topics whose archived records can be cut at a moment.
CUT_ROLES: Final = (TopicRole.INPUT, TopicRole.GLOBAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """A moment (milliseconds since the epoch), and the rule for the cut."""

    moment: int
    by: CutBy


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCut:
    """One partition as of the moment: the files with rows of it, in order, and which rows."""

    files: tuple[SegmentFile, ...]
    rows: RowCut


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Knowledge of a savepoint about when a log was written: it was captured at ``captured_at`` when a reader had committed ``committed`` (None if that is
    not proven), and a little later the log ended at ``end``.
    """

    captured_at: int
    committed: int | None
    end: int


def written_by(moment: int, seen: Iterable[Seen]) -> int:
    """The offset below which all records of a log had been written by the moment, as its savepoints prove it. 0 if none does.

    A savepoint that was captured later, and ended earlier, proves the opposite. So a capture that is dated too early cannot move the offset past it. Nor can a
    committed offset that lies behind the end of its log, as after a log was cut back or the offset was set by hand: the application has not read the records
    that came there later.
    """
    known = tuple(seen)
    read = (one for one in known if one.committed is not None and one.committed <= one.end)
    committed = (one.committed for one in read if one.committed is not None and one.captured_at + CLOCK_DIFFERENCE_MS <= moment)
    ended = (one.end for one in known if one.captured_at + CLOCK_DIFFERENCE_MS + SETTLED_MS <= moment)
    below = max((*committed, *ended), default=0)
    return min((one.end for one in known if one.captured_at > moment and one.end < below), default=below)


def seen_of(archive: Manifest, savepoints: Iterable[Manifest]) -> dict[TopicPartition, list[Seen]]:
    """By partition, what savepoints know of when the records of an archive were written. Those that hold another history of a log know nothing of it: other
    records had the same offsets.
    """
    images = {
        (topic.name, topic.topic_id, image.partition): image for topic in archive.topics if topic.archived for image in topic.partitions
    }
    found: dict[TopicPartition, list[Seen]] = {}
    for manifest in savepoints:
        exact = manifest.consistency is Consistency.EXACT
        for topic in manifest.topics:
            for image in topic.partitions if topic.role in CUT_ROLES and topic.archived else ():
                held = images.get((topic.name, topic.topic_id, image.partition))
                if held is not None and _one_log(image, held):
                    committed = image.committed.offset if exact and image.committed is not None else None
                    seen = Seen(captured_at=manifest.captured_at, committed=committed, end=image.end)
                    found.setdefault(TopicPartition(topic.name, image.partition), []).append(seen)
    return found


def why_not_continued(base: Manifest, archive: Manifest) -> str | None:
    """The reason an archive does not hold what a savepoint holds of its inputs and globals, and then all that came after it up to its own end. None if
    it does.

    An archive that was begun anew since may be of another log, one that was truncated and has other records at the same offsets, or lacks versions of keys
    that were compacted away since.
    """
    if inputs_of(base) != inputs_of(archive):
        return "an input was created again since, or its partitions are others"
    for topic in base.topics:
        if topic.role not in CUT_ROLES or not (topic.archived or topic.role is TopicRole.INPUT):
            continue
        later = archive.topic(topic.name)
        if later is None or not topic.archived or not later.archived:
            return f"{topic.name} was not archived all the time"
        if later.topic_id != topic.topic_id or len(later.partitions) != len(topic.partitions):
            return f"{topic.name} was created again since"
        why = _why_anew(topic, later)
        if why is not None:
            return why
    return None


def inputs_of(manifest: Manifest) -> frozenset[tuple[str, str, int]]:
    """The inputs of a savepoint: names, ids, numbers of partitions."""
    return frozenset((topic.name, topic.topic_id, len(topic.partitions)) for topic in manifest.topics if topic.role is TopicRole.INPUT)


def _why_anew(topic: TopicImage, later: TopicImage) -> str | None:
    images: Mapping[int, PartitionImage] = {image.partition: image for image in later.partitions}
    for image in topic.partitions:
        tp, archive = TopicPartition(topic.name, image.partition), images.get(image.partition)
        if archive is None or not _holds(image, archive):
            return f"the archive of {tp} was begun anew since"
        gap = next((gap for gap in archive.gaps if gap not in image.gaps), None)
        if gap is not None:
            return _missing(tp, gap)
    return None


def _missing(tp: TopicPartition, gap: Gap) -> str:
    return f"offsets {gap.start}..{gap.end - 1} of {tp} are missing from the archive ({gap.reason})"


def _one_log(one: PartitionImage, other: PartitionImage) -> bool:
    return _holds(one, other) if one.end <= other.end else _holds(other, one)


def _holds(before: PartitionImage, archive: PartitionImage) -> bool:
    """True when an archive has the files of an older one of the same partition. Files are only ever added behind others, so the last one tells."""
    if archive.end < before.end:
        return False
    last = next((piece for piece in reversed(before.ranges) if piece.file is not None), None)
    if last is None:
        first = next(archive.files(), None)
        return archive.archived_from == before.archived_from and (first is None or first.first_offset >= before.end)
    at = bisect_left(archive.ranges, last.start, key=lambda piece: piece.start)
    return at < len(archive.ranges) and archive.ranges[at].file == last.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A file with records on both sides of the moment: the first later offset (None if it has none), and the numbers of rows that are not later, before
    and after it. ``ahead`` of them have a later timestamp.
    """

    first_later: int | None
    before: int
    behind: int
    ahead: int = 0


SplitFile = Callable[[SegmentFile, int, int], Split]
"""Reads a file for a moment, and the offset below which no record is later. Called only for files whose description does not decide it."""


def cut_log(files: Iterable[SegmentFile], as_of: AsOf, split: SplitFile, *, written: int = 0) -> LogCut:
    """The part of a partition that belongs to the moment. ``files`` are all its archived files, in offset order. No record below the offset ``written``
    is later.
    """
    taken: list[SegmentFile] = []
    first_later: int | None = None
    rows = late = ahead = left = 0
    for file in files:
        found = _split(file, as_of.moment, written, split)
        before = found.before if first_later is None else 0
        behind = found.before + found.behind - before
        if as_of.by is CutBy.POSITION:
            left, behind = left + behind, 0
        rows, late, ahead = rows + before + behind, late + behind, ahead + found.ahead
        if before or behind:
            taken.append(file)
        if first_later is None:
            first_later = found.first_later
    cut = RowCut(by=as_of.by, moment=as_of.moment, first_later=first_later, rows=rows, late=late, written=written, ahead=ahead, behind=left)
    return LogCut(files=tuple(taken), rows=cut)


def rest_of(files: Iterable[SegmentFile], cut: RowCut) -> LogCut:
    """The part of a partition that does not belong to the moment: all other rows."""
    everything = tuple(files)
    if cut.by is CutBy.TIMESTAMP:
        left = tuple(file for file in everything if file.max_timestamp > cut.moment and file.last_offset >= cut.written)
    else:
        left = tuple(file for file in everything if cut.first_later is not None and file.last_offset >= cut.first_later)
    rows = sum(file.rows for file in everything) - cut.rows
    return LogCut(files=left, rows=replace(cut, rows=rows, late=0, ahead=0, behind=0, rest=True))


def rows_before(files: Sequence[SegmentFile], end: int, captured_at: int, below: Callable[[SegmentFile, int], int]) -> LogCut:
    """The part of a changelog before the ``end`` of a cut, of which only the last file has rows behind it. ``below`` counts its rows before an offset."""
    *whole, last = files
    rows = below(last, end)
    cut = RowCut(by=CutBy.POSITION, moment=captured_at, first_later=end, rows=rows + sum(file.rows for file in whole), late=0)
    return LogCut(files=tuple(files if rows else whole), rows=cut)


CountRows = Callable[[SegmentFile, int, RowCut | None], int]
"""Counts the rows of a file with an offset below the number that, unless it is None, the cut selects by their timestamps. Called only for files of which
some rows may be left out.
"""


def rank(cut: LogCut, offset: int, count: CountRows) -> int:
    """The number of rows of the moment before ``offset``. That is the offset at which a reader continues in a log made of these rows alone."""
    by_time = cut.rows.by is CutBy.TIMESTAMP
    limit = offset if by_time or cut.rows.first_later is None else min(offset, cut.rows.first_later)
    found = 0
    for file in cut.files:
        mixed = by_time and file.max_timestamp > cut.rows.moment and file.last_offset >= cut.rows.written
        if file.last_offset < limit and not mixed:
            found += file.rows
        elif file.first_offset < limit:
            found += count(file, limit, cut.rows if mixed else None)
    return found


def _split(file: SegmentFile, moment: int, written: int, split: SplitFile) -> Split:
    if file.max_timestamp <= moment:
        return Split(first_later=None, before=file.rows, behind=0)
    if file.min_timestamp > moment and file.first_offset >= written:
        return Split(first_later=file.first_offset, before=0, behind=0)
    if file.min_timestamp > moment and file.last_offset < written:
        return Split(first_later=None, before=file.rows, behind=0, ahead=file.rows)
    return split(file, moment, written)


def read_up_to(image: PartitionImage, auto_offset_reset: str) -> int:
    """The offset up to which an application had read a partition at a savepoint, or had skipped it."""
    if image.committed is not None:
        return image.committed.offset
    return image.end if auto_offset_reset == "latest" else image.log_start


def relevant_gaps(image: PartitionImage, cut: RowCut) -> tuple[Gap, ...]:
    """Gaps that may contain records of the moment. By position, gaps after the first later record cannot."""
    if cut.by is CutBy.TIMESTAMP or cut.first_later is None:
        return image.gaps
    return tuple(gap for gap in image.gaps if gap.start < cut.first_later)


def why_no_base(tp: TopicPartition, read: int, captured_at: int, archive: PartitionImage, cut: RowCut) -> str | None:
    """The reason a savepoint that was captured at ``captured_at``, and had read a partition up to ``read``, cannot be the base. None if it can. All records
    that it had read must be no later than the moment, and everything after them must be archived. The translation of its offsets relies on both.

    Records that are missing in the archive were read before the capture. So they are known to be no later than the moment only if the capture itself
    is.
    """
    first = archive.archived_from
    if cut.first_later is not None and cut.first_later < read:
        return f"it had read {tp} up to {read}, and the record at {cut.first_later} is later"
    if not first <= read <= archive.end:
        return f"it had read {tp} up to {read}, and [{first}, {archive.end}) is archived"
    missing = [gap for gap in relevant_gaps(archive, cut) if gap.end > read]
    if missing:
        return _missing(tp, missing[0])
    unseen = first > 0 or any(gap.end <= read for gap in archive.gaps)
    if unseen and captured_at > cut.moment:
        return f"not all that it had read of {tp} is archived (the archive begins at {first}), and it was taken later"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Moments to which a savepoint can be restored, as far as manifests tell. Its inputs are archived without a break since the savepoint ``history`` began, up
    to the newest savepoint of the same history; None when they are not archived. It can be the base from the moment ``since`` on, None when it cannot.
    """

    history: str | None
    since: int | None


def moments_of(manifest: Manifest, before: tuple[Manifest, str] | None, auto_offset_reset: str) -> Moments:
    """The moments of a savepoint. ``before`` is the archived savepoint before it, with its history."""
    inputs = [topic for topic in manifest.topics if topic.role is TopicRole.INPUT]
    if not all(topic.archived for topic in inputs):
        return Moments(history=None, since=None)
    goes_on = before is not None and why_not_continued(before[0], manifest) is None
    since = [_base_since(manifest, topic.name, image, auto_offset_reset) for topic in inputs for image in topic.partitions]
    known = [one for one in since if one is not None]
    return Moments(
        history=before[1] if before is not None and goes_on else manifest.savepoint_id,
        since=max(known, default=manifest.captured_at) if len(known) == len(since) else None,
    )


def _base_since(manifest: Manifest, topic: str, image: PartitionImage, auto_offset_reset: str) -> int | None:
    """The moment from which on nothing that was read of a partition is later: an upper bound. None when there is no such moment."""
    read, captured_at = read_up_to(image, auto_offset_reset), manifest.captured_at
    exact = manifest.consistency is Consistency.EXACT
    seen = Seen(captured_at=captured_at, committed=image.committed.offset if exact and image.committed else None, end=image.end)
    proven = captured_at + CLOCK_DIFFERENCE_MS
    proven += 0 if written_by(proven, [seen]) >= read else SETTLED_MS
    dated = max((file.max_timestamp for file in image.files() if file.first_offset < read), default=0)
    for at in (min(dated, proven), max(captured_at, min(dated, proven))):
        cut = RowCut(by=CutBy.TIMESTAMP, moment=at, first_later=None, rows=0, late=0)
        if why_no_base(TopicPartition(topic, image.partition), read, captured_at, image, cut) is None:
            return at
    return None


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
    groups whose position goes with the topic: they read these again from where ``share.auto.offset.reset`` says. ``unseen`` are live groups that were named and
    whose topics are unknown.
    """

    still_seconds: float
    ends: dict[TopicPartition, int]
    later: tuple[LaterTopic, ...]
    groups: tuple[MovedOffset, ...]
    begin_anew: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherGroup:
    """Knowledge of another group and of the inputs that are cut: those that it ``reads`` now, None if unknown; the partitions on which
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
        """The inputs for which the request has to name the group, so that a person has seen that it is affected."""
        return frozenset() if self.named else self.shares.union(tp.topic for tp in self.committed)

    @property
    def problems(self) -> list[str]:
        """Reasons not to cut these inputs."""
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
    """The reason a log from ``start`` to ``end`` cannot be created again from its archive, None if it can. Every offset must be archived."""
    first = image.archived_from
    if end != image.end:
        return f"{tp} ends at {end} and is archived up to {image.end}"
    if first > start:
        return f"{tp} begins at {start} and is archived from {first}"
    missing = [gap for gap in image.gaps if gap.end > start]
    if missing:
        return _missing(tp, missing[0])
    return None


def check_stood_still(first: Mapping[TopicPartition, Any], second: Mapping[TopicPartition, Any], seconds: float) -> None:
    """Raise ``Refused`` for logs that changed between two readings, ``seconds`` apart. No reading at all proves nothing, and is refused too."""
    moved = sorted(str(tp) for tp in {*first, *second} if tp not in first or tp not in second or first[tp] != second[tp])
    if not first:
        raise Refused("no log was looked at", next_step="check topics.inputs in the configuration")
    if moved:
        raise Refused(
            f"a producer writes to {first_names(moved, most=3)}: within {seconds:g} s something came",
            next_step="nothing was changed; stop every producer of the inputs, take a savepoint, and begin again",
            topics=moved,
        )
