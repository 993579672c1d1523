"""Decides which offsets a savepoint copies, and which files it shares with the previous savepoint.

A manifest lists every file that it needs. So a chain of savepoints only shares files: a lost manifest of the parent breaks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from streams_recovery.core.jobs.spec import RangeToCopy
from streams_recovery.core.kafka_types import Consistency, TopicRole, truncation, unproven
from streams_recovery.core.repository.cleaning import compacted, deletions_gone
from streams_recovery.core.repository.manifest import CopiedRange, Gap, Manifest, PartitionCut, PartitionImage, TopicImage
from streams_recovery.core.repository.segment_file import GONE_BEFORE
from streams_recovery.core.topic_settings import expires

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPolicy:
    """Limits for sharing files. ``max_savepoints``: how many savepoints may have added to a partition since it was last copied from its beginning, in
    as many files or, merged, in fewer. ``max_age_days``: the age of the oldest of them. Beyond either limit the log is copied again, without records that
    were replaced since.
    """

    max_savepoints: int
    max_age_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCopy:
    """The copy of one partition. ``shares``: keep the parent's files, and ``gaps``. ``missing``: the range to copy. ``full_because``: why nothing is
    shared, None if something is.
    """

    shares: bool
    gaps: tuple[Gap, ...]
    missing: RangeToCopy | None
    full_because: str | None


def plan_partition(
    cut: PartitionCut,
    role: TopicRole,
    parent: PartitionImage | None,
    why_full: str | None,
    *,
    epoch_end: int | None = None,
    expires: bool = True,
    deletes: bool = False,
) -> PartitionCopy:
    """The copy of one archived partition. ``why_full`` forbids sharing for the whole topic. ``epoch_end`` is the offset at which the broker says that
    the records up to the parent's leader epoch end; None if it cannot tell. ``expires``: see ``may_expire``. ``deletes``: the
    topic's policy deletes old records, now.
    """
    if role is TopicRole.REPARTITION:
        # Tails are never shared, because other records are unread now.
        return _copy_from(cut, cut.tail_start, why="unread tail")
    reason = why_full or _cannot_share(cut, role, parent, epoch_end, expires)
    if reason is not None or parent is None:
        lost = min(cut.log_start, cut.end)
        gone = parent is not None and not role.internal and why_full is None and parent.end < lost
        before = (Gap(start=parent.end, end=lost, reason=GONE_BEFORE),) if parent is not None and gone else ()
        may_lose = not role.internal or (role is TopicRole.CHANGELOG and deletes)
        return replace(_copy_from(cut, cut.log_start, why=reason or "first savepoint", may_lose=may_lose), gaps=before)
    gaps = parent.gaps
    start = parent.end
    # The log's start is read after its end, so it may already be higher.
    begin = min(cut.log_start, cut.end)
    if begin > start:
        gaps += (Gap(start=start, end=begin, reason=GONE_BEFORE),)
        start = begin
    return PartitionCopy(shares=True, gaps=gaps, missing=_range(cut, start, not role.internal), full_because=None)


def from_new_start(cut: PartitionCut, pieces: Sequence[CopiedRange], lost: Sequence[Gap]) -> tuple[PartitionCut, list[CopiedRange]]:
    """The cut and the copy of a changelog whose policy deletes old records and did so while it was copied: they begin behind what is ``lost``, as those of a
    savepoint a moment later would. State has no gaps.
    """
    start = max((gap.end for gap in lost), default=cut.log_start)
    return replace(cut, log_start=start) if lost else cut, [piece for piece in pieces if piece.start >= start or not lost]


def lacking(manifest: Manifest, archived: Mapping[str, str]) -> dict[str, str]:
    """The ``archived`` topics, their ids by name, that a savepoint knows and has not archived. Another one before it may have."""
    known = {topic.name: topic for topic in manifest.topics}
    return {name: topic_id for name, topic_id in archived.items() if name in known and not known[name].archived}


def archives(manifest: Manifest, wanted: Mapping[str, str]) -> bool:
    """True when a savepoint is one to share with and has archived all of these topics, their ids by name."""
    have = {topic.name: topic.topic_id for topic in manifest.topics if topic.archived}
    return manifest.consistency in (Consistency.EXACT, Consistency.AHEAD) and wanted.items() <= have.items()


def may_expire(settings: Mapping[str, str], before: TopicImage | None) -> bool:
    """True if the broker may have deleted old records since the savepoint with this topic as ``before``, by the present or the former policy."""
    return expires(settings) or (before is not None and expires(before.config, unknown=False))


def _cannot_share(cut: PartitionCut, role: TopicRole, parent: PartitionImage | None, epoch_end: int | None, expires: bool) -> str | None:
    if parent is None:
        return "new partition"
    if cut.end < parent.end:
        return f"the log ends at {cut.end}, before the last savepoint's {parent.end}: it was truncated"
    cut_back = truncation(seen=parent.leader_epoch, upto=parent.end, now=cut.leader_epoch, epoch_end=epoch_end)
    if cut_back is not None:
        return f"the log was truncated since the last savepoint: {cut_back}"
    doubt = unproven(seen=parent.leader_epoch, upto=parent.end, now=cut.leader_epoch, log_start=cut.log_start)
    if doubt is not None and parent.archived_from < parent.end:
        return f"the log may have been truncated since the last savepoint: {doubt}"
    start = parent.ranges.facts.start
    if start is None and not parent.gaps and parent.end > parent.log_start:
        return "the last savepoint did not archive it"
    first = min((parent.archived_from, *(gap.start for gap in parent.gaps)))
    if cut.log_start < first:
        return f"the log starts at {cut.log_start}, before the archive's {first}: another replica leads it now"
    if role is TopicRole.CHANGELOG and not expires and cut.log_start > parent.log_start:
        # A restore would bring back records that were deleted on purpose.
        return f"the log starts at {cut.log_start}, the last savepoint's at {parent.log_start}, and its policy deletes nothing"
    if role is TopicRole.CHANGELOG and cut.log_start > parent.end:
        return f"the log starts at {cut.log_start}, after the last savepoint's end {parent.end}"
    return None


def topic_full_reason(
    role: TopicRole, topic_id: str, settings: Mapping[str, str], captured_at: int, parent: Manifest | None, name: str, policy: ChainPolicy
) -> str | None:
    """The reason no files of this topic may be shared with ``parent``, or None. ``settings`` are the effective ones, including broker defaults.
    ``captured_at`` is a time at which the compaction guard was active.
    """
    before = parent.topic(name) if parent else None
    if parent is None or before is None:
        return "first savepoint"
    if not before.archived:
        return "the last savepoint did not archive it"
    if before.topic_id != topic_id:
        return f"the topic was created again: id {before.topic_id} became {topic_id}"
    if compacted(role, settings, before.config):
        known = (settings, before.config)
        gone = deletions_gone(known, last=parent.captured_at, now=captured_at, after="the last savepoint")
        if gone is not None:
            return gone
    if role is not TopicRole.CHANGELOG:
        # Files of an archived input are shared as long as the topic exists. The archive may go back further than the log.
        return None
    longest = max((image.ranges.facts.savepoints for image in before.partitions), default=0)
    if longest >= policy.max_savepoints:
        return f"files of {longest} savepoints reached the limit of {policy.max_savepoints}"
    age = captured_at - before.full_since
    if age >= policy.max_age_days * _DAY_MS:
        return f"the last full copy is {age // _DAY_MS} days old, the limit is {policy.max_age_days}"
    return None


def split(whole: RangeToCopy, max_records: int) -> tuple[RangeToCopy, ...]:
    """``whole``, split in order into pieces of at most ``max_records`` offsets. Each piece is copied separately into its own file, so that several
    cores can copy one large partition.
    """
    return tuple(
        replace(whole, start=start, end=min(start + max_records, whole.end), size_hint=min(max_records, whole.end - start))
        for start in range(whole.start, whole.end, max_records)
    )


def _copy_from(cut: PartitionCut, start: int, *, why: str, may_lose: bool = False) -> PartitionCopy:
    return PartitionCopy(shares=False, gaps=(), missing=_range(cut, start, may_lose), full_because=why)


def _range(cut: PartitionCut, start: int, may_lose: bool) -> RangeToCopy | None:
    # State with a gap is useless: see from_new_start. But refusing a savepoint would not close a gap in an input.
    if start >= cut.end:
        return None
    return RangeToCopy(tp=cut.tp, start=start, end=cut.end, size_hint=cut.end - start, may_lose=may_lose)
