"""The archive behind the newest savepoint: its small files made into larger ones, and the part of it that a savepoint takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from streams_recovery.core.archive.cuts import MOST_CUTS, ArchivedCut
from streams_recovery.core.archive.log import ARCHIVED_ROLES, Archive, ArchivedLog, is_state
from streams_recovery.core.compaction.rewritten import by_log, with_new
from streams_recovery.core.compaction.small_files import MergeLimits, group_of, groups
from streams_recovery.core.compaction.values import Accepted, RangeToCompact
from streams_recovery.core.kafka_types import TopicPartition, TopicRole, truncation, unproven
from streams_recovery.core.repository.manifest import CopiedRange, LogAtCut, Manifest, PartitionImage, partition_images


def behind(archive: Archive, base: Manifest | None, *, state: bool = False) -> dict[TopicPartition, tuple[ArchivedLog, ...]]:
    """The logs of an archive behind ``base``, the newest savepoint: of each partition the log that goes on, from where the savepoint ends if no file goes
    across that; and the one before it, where the topic was created again since the savepoint. Topics that the application writes are left out unless ``state``
    is archived.
    """
    written = set() if base is None or state else {topic.name for topic in base.topics if is_state(topic)}
    images = {} if base is None else partition_images(base.topics)
    ids = {} if base is None else {topic.name: topic.topic_id for topic in base.topics}
    found = {}
    for tp, logs in archive.logs.items():
        if tp.topic in written:
            continue
        image = images.get(tp)
        rest = [None if image is None or ids[tp.topic] != log.topic_id else _rest(log, image) for log in logs]
        other = image is not None and ids[tp.topic] != logs[-1].topic_id
        former = next((log for log in reversed(rest[:-1]) if log is not None), None) if other else None
        found[tp] = (*(() if former is None else (former,)), rest[-1] or logs[-1])
    return found


def _rest(log: ArchivedLog, image: PartitionImage) -> ArchivedLog | None:
    """The log behind the end of a savepoint. The whole log if a file goes across that end: the part that the savepoint has may fit. None if no part can fit."""
    if log.replaces(image):
        return log
    return log.from_boundary(image.end) or (log if log.start <= image.end < log.end else None)


def cut_behind(archive: Archive, base: Manifest | None) -> ArchivedCut | None:
    """The newest cut, if it is behind ``base``."""
    return archive.cut if archive.cut is not None and base is not None and archive.cut.captured_at > base.captured_at else None


def looks_behind(archive: Archive, base: Manifest | None) -> tuple[int, ...]:
    """The moments of the cuts behind ``base``, as many as are kept."""
    return () if base is None else tuple(at for at in archive.looks if at > base.captured_at)[-MOST_CUTS:]


def groups_to_join(
    archive: Archive, logs: Mapping[TopicPartition, tuple[ArchivedLog, ...]], *, file_records: int
) -> tuple[RangeToCompact, ...]:
    """The files of each partition behind its boundary that become one. No file goes across the end of the cut: a restore may begin there."""
    limits = MergeLimits(max_records=file_records, least_files=2)
    ends = {} if archive.cut is None else archive.cut.ends
    return tuple(
        group_of(tp, pieces)
        for tp, several in sorted(logs.items())
        for part in _apart([one for one in several[-1].ranges if one.start >= archive.boundaries.get(tp, 0)], ends.get(tp))
        for pieces in groups(part, limits)
        if sum(piece.file is not None for piece in pieces) > 1
    )


def _apart(ranges: Sequence[CopiedRange], at: int | None) -> tuple[tuple[CopiedRange, ...], ...]:
    """Ranges before an offset, and those from it on; what goes across it without a record there counts as before."""
    if at is None:
        return (tuple(ranges),)
    return tuple(one for one in ranges if one.start < at), tuple(one for one in ranges if one.start >= at)


def with_joined(logs: Mapping[TopicPartition, tuple[ArchivedLog, ...]], accepted: Sequence[Accepted]) -> tuple[ArchivedLog, ...]:
    """The logs with the new files in place of those that they were made of."""
    made = by_log(accepted)
    return tuple(log for tp, several in sorted(logs.items()) for log in (*several[:-1], _with(several[-1], made.get(tp, ()))))


def _with(log: ArchivedLog, accepted: Sequence[Accepted]) -> ArchivedLog:
    pieces, _ = with_new(log.ranges, accepted)
    return replace(log, ranges=pieces)


def is_same_log(log: ArchivedLog, cut: LogAtCut, epoch_end: int | None) -> bool:
    """True if what is archived of a log is of the log at a cut. ``epoch_end`` is where the records end now that were written up to the archive's leader epoch;
    None if the broker does not say: then it is that only without another leader since. An archiver that does not answer has not seen a log that was cut back.
    """
    seen, now = log.leader_epoch, cut.leader_epoch
    if seen is None or now is None or seen == now:
        return True
    doubt = unproven(seen=seen, upto=log.end, now=now, log_start=cut.log_start)
    return epoch_end is not None and doubt is None and truncation(seen=seen, upto=log.end, now=now, epoch_end=epoch_end) is None


def taken(cut: LogAtCut, role: TopicRole, parent: PartitionImage, log: ArchivedLog | None) -> ArchivedLog | None:
    """The archived log that a savepoint takes of an input or a global, behind the part that its ``parent`` has. None if no archived log goes on there. Its
    records may be later than the cut: a restored application reads them as it would have. An application that has read nothing of an input begins at its end,
    and would skip such records: for it the log is None.
    """
    behind = None if log is None or role not in ARCHIVED_ROLES or log.replaces(parent) else log.from_boundary(parent.end)
    if behind is None or behind.end == parent.end:
        return None
    return None if role is TopicRole.INPUT and cut.committed is None and behind.end > cut.end else behind
