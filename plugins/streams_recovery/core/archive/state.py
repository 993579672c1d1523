"""State by the minute: the records that an application writes are archived from one exact cut to the next, so that a restore may begin at a cut.

A cut is read as a live savepoint reads it, while the application works on: see ``core.savepoint.cut``. Nothing keeps the log cleaner away meanwhile. So a copy
counts only with the proof that it is complete: after one missing offset there is no cut until the next savepoint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from streams_recovery.core import codec
from streams_recovery.core.archive.cuts import ArchivedCut, ArchivedTail
from streams_recovery.core.archive.log import Archive, ArchivedLog, extended, is_state
from streams_recovery.core.archive.tick import ArchivedTo, LogNow, Tick, TickLimits, plan_tick
from streams_recovery.core.jobs.spec import RangeCopied, RangeToCopy
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, Profile, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.named_transactions.proof import NamedProof
from streams_recovery.core.named_transactions.way import missing_of_loops
from streams_recovery.core.names import internal_role
from streams_recovery.core.repository.manifest import (
    CopiedRange,
    LogAtCut,
    Manifest,
    PartitionCut,
    PartitionImage,
    TopicImage,
    partition_images,
)
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.topic_settings import expires
from streams_recovery.core.words import first_names

# A running application is between two transactions for moments only.
LOOKS_FOR_CUT = 5


class NoCut(Exception):
    """Raised where no cut can be had, with the reason."""


class Broken(NoCut):
    """Raised where none can be had before the next savepoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTopics:
    """The topics that a cut is through, as the newest savepoint has them: the ids and partitions of each, and their roles. ``claimed`` are another one's, and
    ``outputs`` are what the configuration says that the application writes.
    """

    roles: dict[str, TopicRole]
    ids: dict[str, str]
    counts: dict[str, int]
    archived: frozenset[str]
    tails: frozenset[str]
    claimed: frozenset[str]
    outputs: frozenset[str]

    @classmethod
    def of(cls, base: Manifest, outputs: Collection[str]) -> StateTopics:
        """The topics of this savepoint. Raises ``Broken`` for a savepoint that no restore can combine with a cut."""
        if base.consistency is not Consistency.EXACT or base.profile is not Profile.FULL:
            raise Broken(f"the newest savepoint, {base.savepoint_id}, is not an exact one with state")
        return cls(
            roles={topic.name: topic.role for topic in base.topics},
            ids={topic.name: topic.topic_id for topic in base.topics},
            counts={topic.name: len(topic.partitions) for topic in base.topics},
            archived=frozenset(topic.name for topic in base.topics if is_state(topic)),
            tails=frozenset(topic.name for topic in base.topics if topic.role is TopicRole.REPARTITION and topic.archived),
            claimed=frozenset(one.topic for one in base.claimed),
            outputs=frozenset(outputs),
        )

    def partitions(self, *roles: TopicRole) -> tuple[TopicPartition, ...]:
        """The partitions of the topics with one of these roles."""
        return tuple(TopicPartition(name, n) for name, role in self.roles.items() if role in roles for n in range(self.counts[name]))

    def check(
        self, application_id: str, names: Iterable[str], described: Mapping[str, TopicDescription], read: Iterable[TopicPartition]
    ) -> None:
        """Raise ``NoCut`` unless these are the topics there are, and the application has no others. It has committed offsets of what it has ``read``."""
        committed = {tp.topic for tp in read}
        self._check_loops(committed)
        others = sorted(
            name for name in {*names, *committed} - self.roles.keys() - self.claimed if internal_role(name, application_id) is not None
        )
        unknown = sorted(committed - self.roles.keys() - {*others})
        if others or unknown:
            raise NoCut(f"the newest savepoint does not know {first_names((*others, *unknown))}")
        changed = sorted(
            name
            for name, topic_id in self.ids.items()
            if name not in described or (described[name].topic_id, described[name].partitions) != (topic_id, self.counts[name])
        )
        if changed:
            raise NoCut(f"{first_names(changed)} changed since the newest savepoint: created again, or with other partitions")

    def _check_loops(self, committed: Collection[str]) -> None:
        """Raise ``NoCut`` where the application reads what it writes: a cut is through what others write."""
        read = {name for name, role in self.roles.items() if role in (TopicRole.INPUT, TopicRole.GLOBAL)}
        written = self.outputs | {name for name, role in self.roles.items() if role is TopicRole.OUTPUT}
        if (loops := missing_of_loops(read.union(committed), written)) is not None:
            raise NoCut(loops.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTick:
    """One copying of changelogs and outputs (``tick``), with the unread ``tails`` of repartition topics. ``cut`` is the cut that the copy reaches, None while
    the cut lies further on.
    """

    tick: Tick
    tails: tuple[RangeToCopy, ...]
    cut: ArchivedCut | None

    @property
    def ranges(self) -> tuple[RangeToCopy, ...]:
        """All that is to be copied."""
        return (*self.tick.ranges, *self.tails)

    def with_tails(self, copied: Sequence[RangeCopied]) -> ArchivedCut | None:
        """The cut with its tails, once they were copied. Raises ``NoCut`` where the application has read and deleted one before."""
        if self.cut is None:
            return None
        pieces = {piece.tp: piece.copied for piece in copied}
        for wanted in self.tails:
            piece = pieces.get(wanted.tp)
            if piece is None or (piece.start, piece.end) != (wanted.start, wanted.end):
                raise NoCut(f"unread records of {wanted.tp} were deleted before they could be copied")
        return replace(self.cut, tails=tuple(ArchivedTail(tp=wanted.tp, copied=pieces[wanted.tp]) for wanted in self.tails))


def plan_state(
    logs: Sequence[LogNow],
    archived: Mapping[TopicPartition, ArchivedTo],
    limits: TickLimits,
    cut: ArchivedCut,
    unread: Sequence[PartitionCut] = (),
) -> StateTick:
    """The look that copies ``logs``, which end at the cut, behind their ``archived`` parts; the look that reaches the cut also copies the ``unread`` records.
    Raises ``Broken`` if a log does not go on there, and ``NoCut`` if too much is unread.
    """
    tick = plan_tick(logs, archived, limits)
    for part in tick.parts:
        before = archived.get(part.now.tp)
        if before is None:
            raise Broken(f"the newest savepoint does not have {part.now.tp}")
        if part.anew != before.anew:
            raise Broken(f"{part.now.tp}: {part.anew}")
        if part.gap is not None:
            raise Broken(f"{part.now.tp} was deleted up to {part.gap.end}, and is archived up to {part.gap.start}")
    tick = replace(tick, parts=tuple(part for part in tick.parts if part.begins < part.end))
    if tick.waiting:
        return StateTick(tick=tick, tails=(), cut=None)
    tails = tuple(_tail_to_copy(one, cut.proof.names) for one in unread if one.tail_start < one.end)
    records = sum(one.size_hint for one in tails)
    if records > limits.records:
        raise NoCut(f"{records:,} records of repartition topics are unread")
    return StateTick(tick=tick, tails=tails, cut=cut)


def _tail_to_copy(part: PartitionCut, names: NamedProof | None) -> RangeToCopy:
    return RangeToCopy(
        tp=part.tp,
        start=part.tail_start,
        end=part.end,
        size_hint=part.end - part.tail_start,
        may_lose=True,
        names=None if names is None else names.logs[part.tp],
    )


def check_whole(copied: Iterable[ArchivedLog], ranges: Iterable[RangeCopied], whole: Collection[TopicPartition]) -> None:
    """Raise ``Broken`` where an offset of a log was gone before it was copied. The ``whole`` ones were as they had been written, afterwards."""
    for log in copied:
        late = next((piece for piece in ranges if piece.tp == log.tp and piece.log_start_after > piece.copied.start), None)
        if log.gaps or late is not None:
            raise Broken(f"{log.tp} was deleted while it was copied")
        if log.tp not in whole:
            raise Broken(f"the log cleaner was at {log.tp} before it was copied")


def at_cut(manifest: Manifest, archive: Archive) -> Manifest | str | None:
    """The savepoint ``manifest``, read with its ranges, as if it had been taken at the newest cut of the archive. Its inputs and globals end where they did:
    their archive goes on behind them, at least as far as the application had read. None if no cut is newer than the savepoint; a text if the newest cut cannot
    be used, with the reason.
    """
    cut = archive.cut
    if cut is None or not _is_behind(cut, manifest, archive):
        return None
    try:
        _check_read(manifest, archive, cut)
        # No file goes across its ends.
        return _at_cut(manifest, cut, {tp: (log,) for tp, log in archive.newest.items()}, across=False)
    except NoCut as reason:
        return str(reason)


def at_kept_cut(manifest: Manifest, archive: Archive, cut: ArchivedCut) -> Manifest | str:
    """The same at a ``cut`` that may be an older one, for a restore that takes its inputs from elsewhere; a text if it cannot be used. The last file of a
    changelog may have records behind the image's end.
    """
    if not _is_behind(cut, manifest, archive):
        return "it is not behind this savepoint"
    try:
        # Behind a newer savepoint the archive may have begun anew: the log before it has what is older.
        return _at_cut(manifest, cut, archive.logs, across=True)
    except NoCut as reason:
        return str(reason)


def _is_behind(cut: ArchivedCut, manifest: Manifest, archive: Archive) -> bool:
    usable = manifest.consistency is Consistency.EXACT and manifest.profile is Profile.FULL and archive.cluster_id == manifest.cluster_id
    return usable and cut.captured_at > manifest.captured_at


def _at_cut(manifest: Manifest, cut: ArchivedCut, logs: Mapping[TopicPartition, Sequence[ArchivedLog]], *, across: bool) -> Manifest:
    ids = {topic.name: topic.topic_id for topic in manifest.topics}
    if cut.topics != ids:
        raise NoCut(f"it is through other topics: {first_names(sorted(name for name, _ in cut.topics.items() ^ ids.items()))}")
    read = {part.tp: part for part in (*cut.inputs, *cut.written)}
    missing = sorted(partition_images(manifest.topics).keys() ^ read.keys())
    if missing:
        raise NoCut(f"it is through other partitions: {first_names(missing)}")
    tails, names = {tail.tp: tail.copied for tail in cut.tails}, cut.proof.names
    _check_left_out(tails, names)
    topics = tuple(
        replace(
            topic,
            partitions=tuple(
                _image(topic, image, read[tp], tails.get(tp), logs.get(tp, ()), across=across)
                for tp, image in partition_images([topic]).items()
            ),
        )
        for topic in manifest.topics
    )
    return replace(manifest, format_version=cut.proof.format_version, captured_at=cut.captured_at, proof=cut.proof, topics=topics)


def _check_left_out(tails: Mapping[TopicPartition, CopiedRange], names: NamedProof | None) -> None:
    """Raise ``NoCut`` unless the unread records are those of a cut by ``names``, without what it leaves out of them."""
    if names is None:
        return
    for tp, copied in tails.items():
        rows = 0 if copied.file is None else copied.file.rows
        if tp not in names.logs or not names.logs[tp].fits(copied.start, rows):
            raise NoCut(f"the {rows:,} unread records of {tp} are not those that the names of its transactions say")


def _check_read(manifest: Manifest, archive: Archive, cut: ArchivedCut) -> None:
    """Raise ``NoCut`` unless all that the application has read at the cut is there for those who have lost their inputs."""
    committed = {part.tp: part.committed for part in cut.inputs}
    truncated = [
        tp for tp, image in partition_images(manifest.topics).items() if (log := archive.newest.get(tp)) is not None and log.replaces(image)
    ]
    if truncated:
        raise NoCut(f"{truncated[0]} was truncated since the savepoint")
    behind = extended(manifest, archive)
    if behind is not None and behind.left:
        raise NoCut(behind.left[0])
    topics = manifest.topics if behind is None else behind.manifest.topics
    for tp, image in partition_images(topic for topic in topics if topic.role is TopicRole.INPUT and topic.archived).items():
        read = committed.get(tp)
        if read is not None and read.offset > image.end:
            raise NoCut(f"{tp} is archived up to {image.end}, and was read up to {read.offset}")


def _image(
    topic: TopicImage, image: PartitionImage, cut: PartitionCut, tail: CopiedRange | None, logs: Sequence[ArchivedLog], *, across: bool
) -> PartitionImage:
    if topic.archived and not (topic.role is TopicRole.REPARTITION or is_state(topic)):
        # Whether an input was truncated since is asked where inputs are kept.
        return replace(image, committed=cut.committed, leader_epoch=cut.leader_epoch)
    there = replace(image, **codec.fields_of(LogAtCut, cut))
    if not topic.archived:
        return there
    if topic.role is TopicRole.REPARTITION:
        return replace(there, ranges=Ranges.of(_tail(cut, tail)), gaps=())
    by_hand = topic.role is TopicRole.CHANGELOG and cut.log_start > image.log_start and not expires(topic.config, unknown=False)
    if cut.log_start > image.end or by_hand:
        raise NoCut(f"records of {cut.tp} before {cut.log_start} were deleted since the savepoint")
    if cut.end == image.end:
        return there
    own = (log for log in reversed(logs) if log.topic_id == topic.topic_id and not log.replaces(image))
    several = (log.from_boundary(image.end) for log in own)
    parts = (log.up_to(log.end_of_file(cut.end) if across else cut.end) for log in several if log is not None)
    behind = next((log for log in parts if log is not None), None)
    if behind is None or behind.gaps:
        raise NoCut(f"{cut.tp} is not archived from {image.end} to {cut.end}")
    return replace(there, ranges=Ranges.of((*image.ranges, *behind.ranges)))


def _tail(cut: PartitionCut, tail: CopiedRange | None) -> tuple[CopiedRange, ...]:
    found = None if tail is None else (tail.start, tail.end)
    if found != (None if cut.tail_start >= cut.end else (cut.tail_start, cut.end)):
        raise NoCut(f"the unread records of {cut.tp} are not archived: those of {found}")
    return () if tail is None else (tail,)


Seen = dict[TopicPartition, tuple[int | None, CommittedOffset | None]]


def seen_at(cut: ArchivedCut) -> Seen:
    """End and committed offset of each partition at a cut. The end of an input is None."""
    return {part.tp: (part.end, part.committed) for part in cut.written} | {part.tp: (None, part.committed) for part in cut.inputs}


def check_forward(before: Seen, now: Seen) -> None:
    """Raise ``NoCut`` if committed offsets are gone or went back: they were set from outside, and the state does not match them."""
    for tp, (_, known) in before.items():
        found = now[tp][1] if tp in now else None
        if known is not None and (found is None or found.offset < known.offset):
            raise NoCut(f"the committed offset of {tp} went from {known.offset} {'away' if found is None else f'back to {found.offset}'}")


def check_read(cut: ArchivedCut, archived: Mapping[TopicPartition, ArchivedTo]) -> None:
    """Raise ``NoCut`` unless all that was read at the cut is archived."""
    for part in cut.inputs:
        if part.committed is not None and part.tp in archived and part.committed.offset > archived[part.tp].end:
            raise NoCut(f"{part.tp} is archived up to {archived[part.tp].end}, and was read up to {part.committed.offset}")


def seen_before(base: Manifest, archive: Archive) -> Seen:
    """The same at the newest cut behind a savepoint, or at that one."""
    if archive.cut is not None and archive.cut.captured_at > base.captured_at:
        return seen_at(archive.cut)
    read_only = {topic.name for topic in base.topics if topic.role in (TopicRole.INPUT, TopicRole.GLOBAL)}
    return {tp: (None if tp.topic in read_only else image.end, image.committed) for tp, image in partition_images(base.topics).items()}


def has_news(base: Manifest, archive: Archive) -> bool:
    """True if input is archived that was not read at the newest cut behind a savepoint, or at that one. An application at rest has none, and gets no newer
    cut, whatever moment its archiver says that all is archived up to.
    """
    ends = {tp: log.end for tp, log in archive.newest.items()}
    return any(known is not None and ends.get(tp, 0) > known.offset for tp, (_, known) in seen_before(base, archive).items())
