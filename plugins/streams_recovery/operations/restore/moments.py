"""The source of a restore whose inputs end at a moment: which topics may stay, what is refused, and what is told. Where the inputs are cut in the topics
themselves: what has to be proven first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streams_recovery.core.errors import Refused
from streams_recovery.core.jobs.spec import CutBy, RowCut, RowSlice
from streams_recovery.core.kafka_types import CommittedOffset, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage, partition_images
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.restore.parts import RestorePart
from streams_recovery.core.restore.parts.moment import CutPart, MomentPart
from streams_recovery.core.restore.point_in_time import (
    CUT_ROLES,
    InPlace,
    LaterPartition,
    LaterTopic,
    LogCut,
    MovedOffset,
    OtherGroup,
    check_stood_still,
    rank,
    rest_of,
    uncovered,
)
from streams_recovery.core.restore.rebuild import Placed
from streams_recovery.core.restore.request import AS_OF, IN_PLACE
from streams_recovery.core.savepoint.writers import ProducerProgress
from streams_recovery.core.topic_holds.compaction_guard import MIN_COMPACTION_LAG
from streams_recovery.core.topic_settings import compacts
from streams_recovery.core.waiting import pause
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import other_groups
from streams_recovery.operations.restore.checks import refuse_existing_inputs, refuse_joined_inputs, without_copies
from streams_recovery.operations.restore.inputs_there import kept_inputs
from streams_recovery.operations.restore.placing import RestoreSource
from streams_recovery.segments.queries import rows_below_and_no_later

_NAMED = 5
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentSource(RestoreSource):
    """State and input up to a moment. The inputs are those of the archive, so nothing more is looked for behind the savepoint."""

    archive_entry: int | None = 0
    # Savepoints that were passed over.
    unreadable: tuple[str, ...] = ()
    # Why the newest archive was passed over, empty if it was not.
    passed_archive: str = ""
    # The groups that may be moved where the present inputs are cut in place, None if they are not cut.
    may_move: tuple[str, ...] | None = None

    def later(self) -> tuple[LaterTopic, ...]:
        return () if self.may_move is None else later_topics(self)

    def staying(
        self, recovery: RecoveryContext, present: Mapping[str, TopicDescription], later: Iterable[str]
    ) -> Mapping[str, TopicDescription]:
        """Copies are made for each restore, and inputs that are cut are made again."""
        if self.may_move is None:
            return without_copies(recovery, present)
        images, cut = {topic.name: topic.topic_id for topic in self.manifest.topics}, frozenset(later)
        return {name: found for name, found in present.items() if name not in cut or found.topic_id != images.get(name)}

    def refuse_placed(self, placed: Sequence[Placed]) -> None:
        if self.may_move is None:
            refuse_existing_inputs(placed)

    def refuse_joined(self, joined: Iterable[TopicPartition]) -> None:
        refuse_joined_inputs(joined)

    def warnings_about(self, placed: Sequence[Placed]) -> tuple[str, ...]:
        return moment_warnings(self, placed)

    def whole_part(self, recovery: RecoveryContext, present: Mapping[str, TopicDescription], later: tuple[LaterTopic, ...]) -> RestorePart:
        """Raises as ``look``: the longest look, which has to hold until the inputs are cut."""
        if self.may_move is None or not isinstance(self.part, MomentPart):
            return self.part
        return replace(self.part, in_place=look(recovery, self.may_move, self, present, later))


def moment_warnings(begin: MomentSource, placed: Sequence[Placed]) -> tuple[str, ...]:
    """The warnings before a restore to a moment: where the archive just ends, where it may have holes, and which globals are not of the moment."""
    if not isinstance(begin.part, CutPart):
        return ()
    point = begin.part.point
    copied = {one.image.name for one in placed if one.made and one.image.role is TopicRole.INPUT}
    ends = () if point.slice is not None else begin.cuts.items()
    whole = sorted(tp for tp, cut in ends if tp.topic in copied and cut.rows.first_later is None)
    living = sorted(one.name for one in placed if one.image.role is TopicRole.GLOBAL and not one.made)
    warnings = []
    if whole:
        named = ", ".join(map(str, whole[:_NAMED])) + (f" and {len(whole) - _NAMED} more" if len(whole) > _NAMED else "")
        warnings.append(
            f"nothing later than the moment is archived of {named}: all of it is taken, and what came after the savepoint is not in it"
        )
    ahead = {tp: cut.rows.ahead for tp, cut in sorted(begin.cuts.items()) if cut.rows.ahead}
    if ahead:
        warnings.append(
            f"{sum(ahead.values()):,} records are dated later than the moment, but savepoints of before it show that they had been written: they are "
            f"taken. They are in {_counted(ahead)}"
        )
    warnings += _of_interval({tp: part for tp, cut in sorted(begin.cuts.items()) if (part := cut.rows.slice) is not None})
    behind = {tp: cut.rows.behind for tp, cut in sorted(begin.cuts.items()) if cut.rows.behind}
    if behind:
        warnings.append(
            f"by position, {sum(behind.values()):,} records of the moment or earlier come after the first later record of their partition and are left "
            f"out: {_counted(behind)}. By timestamp they are taken"
        )
    cleaned = sorted(one.image.name for one in placed if one.image.role in CUT_ROLES and one.made and _compacted_early(one.image))
    if cleaned:
        warnings.append(
            f"a version of a key that was replaced soon may have been compacted away before a savepoint copied it, in {', '.join(cleaned)}: give "
            f"them a {MIN_COMPACTION_LAG} longer than the time between savepoints"
        )
    if begin.passed_archive:
        warnings.append(
            f"the input is that of savepoint {point.archive}, and what newer savepoints have of it is not looked at: {begin.passed_archive}"
        )
    if begin.unreadable:
        warnings.append(f"savepoints that could not be read, and their archive may reach further: {', '.join(begin.unreadable[:_NAMED])}")
    if living:
        warnings.append(f"global topics are read as they are now, not as of the moment: {', '.join(living)}")
    return tuple(warnings)


def _of_interval(slices: Mapping[TopicPartition, RowSlice]) -> list[str]:
    warnings = []
    wrong = {tp: part.wrong for tp, part in slices.items() if part.wrong}
    if wrong:
        warnings.append(
            f"{sum(wrong.values()):,} records are dated later than they were written, as savepoints show: their clocks were wrong, so they are left out, "
            f"and the records behind them are read. They are in {_counted(wrong)}"
        )
    for what, late in (
        ("of the interval", {tp: part.left for tp, part in slices.items() if part.left}),
        ("around the interval", {tp: part.around for tp, part in slices.items() if part.around}),
    ):
        if late:
            warnings.append(
                f"{sum(late.values()):,} records {what} come behind a record that is later than lateness allows, and are left out. They are in "
                f"{_counted(late)}"
            )
    return warnings


def _counted(records: Mapping[TopicPartition, int]) -> str:
    named = ", ".join(f"{tp} ({count:,})" for tp, count in list(records.items())[:_NAMED])
    return named + (f" and {len(records) - _NAMED} more partitions" if len(records) > _NAMED else "")


def _compacted_early(topic: TopicImage) -> bool:
    return compacts(topic.config) and int(topic.config.get(MIN_COMPACTION_LAG, "0")) < _HOUR_MS


def later_topics(begin: MomentSource) -> tuple[LaterTopic, ...]:
    """Inputs of which the archive has records that do not belong to the moment, and these."""
    found = []
    for topic in begin.manifest.topics:
        if topic.role is TopicRole.INPUT and topic.archived:
            rests = {
                image.partition: rest_of(image.files(), begin.cuts[TopicPartition(topic.name, image.partition)].rows)
                for image in topic.partitions
            }
            parts = [
                LaterPartition(partition=number, files=SegmentFiles.of(rest.files), cut=rest.rows)
                for number, rest in rests.items()
                if rest.rows.rows
            ]
            found += [LaterTopic(name=topic.name, partitions=tuple(parts))] if parts else []
    return tuple(found)


def look(
    recovery: RecoveryContext,
    may_move: Collection[str],
    begin: MomentSource,
    present: Mapping[str, TopicDescription],
    later: tuple[LaterTopic, ...],
) -> InPlace:
    """Prove that the inputs that are there can be cut. Takes as long as they have to stand still. Inputs that are gone need no proof. The groups
    ``may_move`` may be moved.

    Raises ``Refused`` with all obstacles: records that are not archived, open transactions, other groups that have members or were not named. Then for inputs
    that were written to during the look.
    """
    inputs = _living_inputs(recovery, begin, present)
    images = partition_images(inputs)
    partitions, seconds = list(images), float(recovery.config.restore.producers_still_seconds)
    if not partitions:
        return InPlace(still_seconds=seconds, ends={}, later=(), groups=())
    starts, ends = recovery.cluster.log_starts(partitions), recovery.cluster.high_watermarks(partitions)
    there = {topic.name for topic in inputs}
    cut = tuple(topic for topic in later if topic.name in there)
    groups = other_readers(recovery, may_move, {one.name for one in cut})
    moved = _moved_offsets(recovery, begin, groups)
    missing = {tp: why for tp, image in images.items() if (why := uncovered(tp, image, starts[tp], ends[tp]))}
    transactions = recovery.transactions.blocking(partitions)
    problems = [
        *(f"{name} is written by the application itself" for name in sorted(there & set(recovery.config.topics.outputs))),
        *(
            f"{topic.name} has {present[topic.name].partitions} partitions now"
            for topic in inputs
            if present[topic.name].partitions != len(topic.partitions)
        ),
        *(
            f"{why}: take a savepoint now that the producers are stopped"
            for why in (*missing.values(), *_truncated(recovery, images, present))
        ),
        *(f"a transaction is open on {one}" for one in transactions),
        *(problem for group in groups for problem in group.problems),
    ]
    if problems:
        ended_by = recovery.transactions.remedy({one.tp for one in transactions}, transactions) if transactions else None
        raise Refused(
            f"the inputs of {recovery.application_id} cannot be cut in place: {'; '.join(problems[:20])}",
            next_step="nothing was changed; do what each of these needs, or bring a second application to the moment instead"
            + (f". For the transactions: {ended_by}" if ended_by else ""),
            problems=problems,
            not_archived={str(tp): (ends[tp], images[tp].end) for tp in missing},
            transactions=[str(one) for one in transactions],
            members={group.name: group.members for group in groups if group.members},
            unnamed={group.name: tuple(sorted(group.unnamed)) for group in groups if group.unnamed},
        ).then(*(ended_by.commands if ended_by else ()))
    check_still(recovery, partitions, seconds)
    return InPlace(
        still_seconds=seconds,
        ends=ends,
        later=cut,
        groups=moved,
        begin_anew={group.name: tuple(sorted(group.shares)) for group in groups if group.shares},
        unseen=tuple(group.name for group in groups if group.reads is None and group.members and not group.committed),
    )


def _truncated(
    recovery: RecoveryContext, images: Mapping[TopicPartition, PartitionImage], present: Mapping[str, TopicDescription]
) -> list[str]:
    """Logs that are as long as their archive, and not the archived log."""
    seen = kept_inputs(recovery, images, present)
    found = {one.tp: one.truncated_below(one.image.end) for one in seen}
    return [f"{tp} has other records than its archive: {why}" for tp, why in found.items() if why is not None]


def _living_inputs(recovery: RecoveryContext, begin: MomentSource, present: Mapping[str, TopicDescription]) -> list[TopicImage]:
    # As the archive has them, not as the base: what comes out has to be whole too.
    archive = _archive(recovery, begin)
    return [
        topic
        for topic in archive.topics
        if topic.role is TopicRole.INPUT and topic.name in present and present[topic.name].topic_id == topic.topic_id
    ]


def _archive(recovery: RecoveryContext, begin: MomentSource) -> Manifest:
    if begin.part.archive is None:
        raise Refused("inputs are cut only for a moment", next_step=f"name one ({AS_OF.shown}), or leave out {IN_PLACE.shown}")
    return recovery.savepoints.read(begin.part.archive)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsSeen:
    """The ends of logs, and how far producers have come in them, at one moment."""

    ends: Mapping[TopicPartition, int]
    written: Mapping[TopicPartition, tuple[ProducerProgress, ...]]

    @property
    def by_log(self) -> dict[TopicPartition, Any]:
        return {tp: (end, self.written[tp]) for tp, end in self.ends.items()}


def logs_seen(recovery: RecoveryContext, partitions: Collection[TopicPartition]) -> LogsSeen:
    """The first look of ``check_still``."""
    written = recovery.transactions.written(partitions)
    return LogsSeen(ends=recovery.cluster.high_watermarks(list(partitions)), written=written)


def check_still(
    recovery: RecoveryContext, partitions: Collection[TopicPartition], seconds: float, *, first: LogsSeen | None = None, passed: float = 0
) -> None:
    """Look twice, so far apart, at ends and at how far producers have come. The ``first`` look may have been taken before: so many seconds have ``passed``
    since then at least. Raises ``Refused`` naming what moved.
    """
    before = logs_seen(recovery, partitions) if first is None else first
    pause(seconds - passed, f"producers to show themselves in {len(partitions)} partitions of inputs")
    check_stood_still(before.by_log, logs_seen(recovery, partitions).by_log, max(seconds, passed))


def other_readers(recovery: RecoveryContext, may_move: Collection[str], names: Collection[str]) -> list[OtherGroup]:
    """Every other group that has to do with these topics, or may have: by what its live members read, by its offsets, or as a share group."""
    if not names:
        return []
    cut, kinds = frozenset(names), recovery.cluster.groups()
    reading = recovery.groups.subscribed(but=recovery.application_id)
    others = [name for name in other_groups(recovery) if name in kinds or name in reading]
    shared = recovery.groups.share_positions([name for name in others if kinds.get(name) == "share"])
    found = []
    for group_id in sorted(others):
        # The offsets of share groups are not those of consumer groups.
        partitions = [] if kinds.get(group_id) == "share" else recovery.groups.committed_partitions(group_id)
        reads = reading.get(group_id, frozenset())
        one = OtherGroup(
            name=group_id,
            reads=None if reads is None else reads & cut,
            committed=tuple(tp for tp in partitions if tp.topic in cut),
            shares=shared.get(group_id, frozenset()) & cut,
            members=(),
            named=group_id in may_move,
        )
        if one.reads is None or one.reads or one.committed or one.shares:
            group = recovery.groups.describe(group_id)
            members = tuple(member.client_id for member in group.members[:_NAMED]) or (str(group.state),)
            found.append(replace(one, members=() if group.empty else members))
    return found


def _moved_offsets(recovery: RecoveryContext, begin: MomentSource, groups: Collection[OtherGroup]) -> tuple[MovedOffset, ...]:
    """The offsets of these groups on the inputs that are cut, as they will be."""
    moved = []
    for group in groups:
        for tp, known in sorted(recovery.groups.committed(group.name, group.committed).items()) if group.committed else ():
            if known is not None:
                moved.append(_moved(recovery, begin, group.name, tp, known))
    return tuple(moved)


def _moved(recovery: RecoveryContext, begin: MomentSource, group_id: str, tp: TopicPartition, known: CommittedOffset) -> MovedOffset:
    [image] = [i for t in begin.manifest.topics if t.name == tp.topic for i in t.partitions if i.partition == tp.partition]
    cut = begin.cuts[tp]
    everything = RowCut(by=CutBy.POSITION, moment=cut.rows.moment, first_later=None, rows=image.rows, late=0)

    def before(part: LogCut) -> int:
        return rank(part, known.offset, lambda file, offset, at: rows_below_and_no_later(recovery.repository, file, offset, at))

    offset = before(cut)
    again = before(LogCut(files=tuple(image.files()), rows=everything)) - offset
    return MovedOffset.of(group_id, tp, known, offset=offset, again=again)
