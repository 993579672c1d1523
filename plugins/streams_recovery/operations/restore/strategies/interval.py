"""What the reprocessing of an interval begins from: archived input around it, and no state or that of a savepoint from before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage
from streams_recovery.core.restore.plan import PointInTime, RestorePlan
from streams_recovery.core.restore.point_in_time import AsOf, CutBy, LogCut, read_up_to
from streams_recovery.core.restore.request import LATEST, NO_STATE
from streams_recovery.core.sandbox.interval import IntervalSlice, bounds_of, slice_log, why_incomplete
from streams_recovery.core.text.restore_plan import moment
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.savepoint_checks import check_files, pieces_with
from streams_recovery.operations.restore.source import CUT_ROLES, RestoreSource, empty_source, restored_state
from streams_recovery.operations.restore.strategies.base_savepoint import Base, BaseSavepointFinder
from streams_recovery.operations.restore.strategies.strategy import Strategy, named
from streams_recovery.segments.queries import first_timestamp, look_into

_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval(Strategy):
    """The input of an interval of the application id ``source``, processed again. ``savepoint`` is the id of the base, or ``latest``: the newest one
    that had read nothing of the interval, or ``none``: no state at all.
    """

    KIND: ClassVar = "interval"
    slice: IntervalSlice
    source: str
    savepoint: str = LATEST

    def resolve(self, recovery: RecoveryContext) -> RestoreSource:
        """The input of the interval and the state before it. Raises ``Refused`` when the archive does not reach far enough, records of it may be missing, or
        no savepoint had read nothing of it; and ``Damaged`` for files that cannot be used. One without any record is not refused.
        """
        wanted = self.slice
        base, archive, unreadable = _found(recovery, self, wanted)
        cuts = _cuts(recovery, archive, wanted, base)
        if base is None:
            _check_complete(recovery, archive, cuts, wanted)
        check_files(recovery, archive, pieces_with(archive.topics, (file for cut in cuts.values() for file in cut.files)))
        manifest = (
            _without_state(archive) if base is None else restored_state(base, archive, cuts, recovery.config.application.auto_offset_reset)
        )
        return RestoreSource(
            manifest=replace(manifest, topics=tuple(_as_processed(topic, cuts) for topic in manifest.topics)),
            cuts=cuts,
            point=PointInTime(
                as_of=AsOf(moment=wanted.last, by=CutBy.TIMESTAMP), with_state=base is not None, archive=archive.savepoint_id, slice=wanted
            ),
            unreadable=unreadable,
        )

    def pinned(self, recovery: RecoveryContext, planned: RestorePlan) -> Self:
        """See Strategy."""
        return replace(self, savepoint=named(self.savepoint, planned.savepoint_id))


def records_of(recovery: RecoveryContext, request: Interval) -> int:
    """How many archived input records the interval itself has. Raises ``Refused`` when the archive does not reach behind it, and when there is none and
    some may be missing: an archive with a hole is no proof that there was nothing.
    """
    wanted = request.slice
    archive = _archive(recovery, request, wanted).archive()
    inputs = {topic.name: topic for topic in archive.topics if topic.role is TopicRole.INPUT}
    cuts = {tp: cut for tp, cut in _cuts(recovery, archive, wanted, None).items() if tp.topic in inputs}
    records = sum(cut.rows.slice.own for cut in cuts.values() if cut.rows.slice is not None)
    if records == 0:
        _check_complete(recovery, archive, {tp: cut for tp, cut in cuts.items() if not is_table(inputs[tp.topic], wanted)}, wanted)
    return records


def _base(recovery: RecoveryContext, request: Interval) -> Base:
    # None that is ``ahead``: some of the input would be counted twice.
    return Base(source=request.source or recovery.application_id, savepoint=request.savepoint)


def _archive(recovery: RecoveryContext, request: Interval, wanted: IntervalSlice) -> BaseSavepointFinder:
    if wanted.closed > recovery.clock():
        raise Refused(
            f"the interval from {moment(wanted.interval.start)} to {moment(wanted.interval.end)} is not over before {moment(wanted.closed)}, its "
            "late records included",
            next_step="choose an interval of the past, or less lateness",
        )
    return BaseSavepointFinder(recovery=recovery, wanted=_base(recovery, request), as_of=AsOf(moment=wanted.closed, by=CutBy.TIMESTAMP))


def _found(recovery: RecoveryContext, request: Interval, wanted: IntervalSlice) -> tuple[Manifest | None, Manifest, tuple[str, ...]]:
    search = _archive(recovery, request, wanted)
    archive = search.archive()
    if request.savepoint == NO_STATE:
        return None, archive, tuple(search.unreadable)
    before = BaseSavepointFinder(
        recovery=recovery, wanted=_base(recovery, request), as_of=AsOf(moment=wanted.interval.start - 1, by=CutBy.TIMESTAMP)
    )
    base, archive = before.with_state()
    if archive.captured_at < wanted.closed:
        raise Refused(
            f"the inputs that savepoint {base.savepoint_id} had read are archived up to {moment(archive.captured_at)} only, and the interval is "
            f"complete at {moment(wanted.closed)}: they were created again since",
            next_step="process the interval without state (base none)",
        )
    return base, archive, tuple(before.unreadable)


def _cuts(recovery: RecoveryContext, archive: Manifest, wanted: IntervalSlice, base: Manifest | None) -> dict[TopicPartition, LogCut]:
    reset = recovery.config.application.auto_offset_reset
    cuts = {}
    for topic in archive.topics:
        if topic.role not in CUT_ROLES or not topic.archived:
            continue
        table = is_table(topic, wanted)
        before = None if base is None else base.topic(topic.name)
        read = {} if before is None else {image.partition: read_up_to(image, reset) for image in before.partitions}
        for image in topic.partitions:
            # With state, a stream goes on where the state ends; a table may be read from its topic.
            first = None if table else read.get(image.partition)
            bounds = bounds_of(wanted, whole=table or base is not None, first=first, archived_at=archive.captured_at)
            cuts[TopicPartition(topic.name, image.partition)] = slice_log(
                image.files(), bounds, lambda file, limits: look_into(recovery.repository, file, limits)
            )
    return cuts


def is_table(topic: TopicImage, wanted: IntervalSlice) -> bool:
    """True for what is taken from its beginning: a key that was set before the interval still has its value."""
    return topic.role is TopicRole.GLOBAL or topic.name in wanted.tables or "compact" in topic.config.get("cleanup.policy", "")


def _check_complete(recovery: RecoveryContext, archive: Manifest, cuts: Mapping[TopicPartition, LogCut], wanted: IntervalSlice) -> None:
    images = {TopicPartition(topic.name, image.partition): image for topic in archive.topics for image in topic.partitions}
    missing = {
        tp: why
        for tp, cut in sorted(cuts.items())
        if (why := why_incomplete(tp, images[tp], cut.rows, wanted, lambda file: first_timestamp(recovery.repository, file))) is not None
    }
    if missing:
        raise Refused(
            f"not all input of the interval from {moment(wanted.interval.start)} may be archived: {'; '.join(list(missing.values())[:_NAMED])}",
            next_step="choose a later interval, or begin from the state of a savepoint (base savepoint)",
            missing=list(missing.values()),
            archived_from={str(tp): images[tp].archived_from for tp in missing},
        )


def _without_state(archive: Manifest) -> Manifest:
    topics = tuple(_unread(topic) for topic in archive.topics if not topic.role.internal)
    return replace(archive, topics=topics, consistency=Consistency.EXACT)


def _unread(topic: TopicImage) -> TopicImage:
    if topic.role is not TopicRole.INPUT:
        return topic
    return replace(topic, partitions=tuple(_from_first(image, "") for image in topic.partitions))


def _from_first(image: PartitionImage, metadata: str) -> PartitionImage:
    first = image.archived_from
    return replace(image, committed=CommittedOffset(offset=first, metadata=metadata, leader_epoch=None))


def _as_processed(topic: TopicImage, cuts: Mapping[TopicPartition, LogCut]) -> TopicImage:
    """What gaps there are in inputs was judged already."""
    if topic.role is TopicRole.OUTPUT:
        return empty_source(topic)
    if topic.role is not TopicRole.INPUT:
        return topic

    def begun(image: PartitionImage) -> PartitionImage:
        cut = cuts.get(TopicPartition(topic.name, image.partition))
        part = None if cut is None else cut.rows.slice
        if part is not None and part.first is not None and image.committed is not None:
            # Nothing below it is in the copy, so it is where the copy begins.
            image = _from_first(image, image.committed.metadata)
        return replace(image, gaps=())

    return replace(topic, partitions=tuple(begun(image) for image in topic.partitions))
