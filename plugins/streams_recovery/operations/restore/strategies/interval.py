"""The state and the input from which an interval is processed again: archived input around it, and no state or that of a savepoint from before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from streams_recovery.core.errors import Refused
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage, partition_images
from streams_recovery.core.restore.interval import IntervalSlice, bounds_of, slice_log, why_incomplete
from streams_recovery.core.restore.parts.interval import IntervalPart
from streams_recovery.core.restore.parts.moment import PointInTime
from streams_recovery.core.restore.point_in_time import CUT_ROLES, AsOf, LogCut, read_up_to
from streams_recovery.core.restore.request import NO_STATE
from streams_recovery.core.topic_settings import compacts
from streams_recovery.core.words import LATEST, moment
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.checks import check_files, pieces_with
from streams_recovery.operations.restore.moments import MomentSource
from streams_recovery.operations.restore.placing import empty_source, restored_state
from streams_recovery.operations.restore.strategies.as_of_moment import BaseSavepointFinder, RequestedBase
from streams_recovery.operations.restore.strategies.strategy import StateStrategy
from streams_recovery.segments.queries import edge_stamps, look_into, timestamp_at

_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OfInterval(StateStrategy):
    """The input of an interval of the application id ``source``, processed again. ``savepoint`` is the id of the base, or ``latest``: the newest one
    that had read nothing of the interval, or ``none``: no state at all.
    """

    KIND: ClassVar = "interval"
    slice: IntervalSlice
    # It has no default: that of its base would be one.
    source: str = field()
    savepoint: str = LATEST

    def resolve(self, recovery: RecoveryContext) -> MomentSource:
        """The input of the interval and the state before it. Raises ``Refused`` when the archive does not reach far enough, records of it may be missing, or
        no savepoint had read nothing of it, or records of it would be left out unasked; and ``Damaged`` for files that cannot be used. One without any
        record is not refused.
        """
        wanted = self.slice
        search = _search(recovery, self)
        base, unreadable = None, search.unreadable
        if self.savepoint == NO_STATE:
            archive, cuts, incomplete = _whole(recovery, search, wanted)
            if incomplete is not None:
                raise incomplete
        else:
            before = BaseSavepointFinder(
                recovery=recovery, wanted=search.wanted, as_of=AsOf(moment=wanted.interval.start - 1, by=CutBy.TIMESTAMP)
            )
            base, archive = before.with_state()
            unreadable = before.unreadable
            _check_reach(base, archive, wanted)
            cuts = _cuts(recovery, search, archive, wanted, base)
        _check_late(recovery, archive, cuts, wanted)
        check_files(recovery, archive, pieces_with(archive.topics, (file for cut in cuts.values() for file in cut.files)))
        manifest = (
            _without_state(archive) if base is None else restored_state(base, archive, cuts, recovery.config.application.auto_offset_reset)
        )
        return MomentSource(
            manifest=replace(manifest, topics=tuple(_as_processed(topic, cuts) for topic in manifest.topics)),
            cuts=cuts,
            part=IntervalPart(
                point=PointInTime(
                    as_of=AsOf(moment=wanted.last, by=CutBy.TIMESTAMP),
                    with_state=base is not None,
                    archive=archive.savepoint_id,
                    slice=wanted,
                )
            ),
            unreadable=tuple(unreadable),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRecords:
    """The archived input records of an interval: ``taken`` ones, and those ``left`` out because they come behind the end of their log."""

    taken: int
    left: int


def records_of(recovery: RecoveryContext, request: OfInterval) -> OwnRecords:
    """Count the archived input records of the interval itself. Raises ``Refused`` when the archive does not reach behind it, when some would be left out
    unasked, and when there is none and some may be missing: an archive with a hole is no proof that there was nothing.
    """
    wanted = request.slice
    archive, cuts, incomplete = _whole(recovery, _search(recovery, request), wanted, tables=False)
    inputs = {topic.name for topic in archive.topics if topic.role is TopicRole.INPUT}
    slices = [cut.rows.slice for tp, cut in cuts.items() if tp.topic in inputs and cut.rows.slice is not None]
    own = OwnRecords(taken=sum(part.own for part in slices), left=sum(part.left for part in slices))
    _check_late(recovery, archive, cuts, wanted)
    if not own.taken and incomplete is not None:
        raise incomplete
    return own


def _search(recovery: RecoveryContext, request: OfInterval) -> BaseSavepointFinder:
    wanted = request.slice
    if wanted.closed > recovery.clock():
        raise Refused(
            f"the interval from {moment(wanted.interval.start)} to {moment(wanted.interval.end)} is not over before {moment(wanted.closed)}, its "
            "late records included",
            next_step="choose an interval of the past, or less lateness",
        )
    # None that is ``ahead``: some of the input would be counted twice.
    base = RequestedBase(source=request.source or recovery.application_id, savepoint=request.savepoint)
    return BaseSavepointFinder(recovery=recovery, wanted=base, as_of=AsOf(moment=wanted.closed, by=CutBy.TIMESTAMP))


def _whole(
    recovery: RecoveryContext, search: BaseSavepointFinder, wanted: IntervalSlice, *, tables: bool = True
) -> tuple[Manifest, dict[TopicPartition, LogCut], Refused | None]:
    """The newest archive with the whole slice, and the slice of it; else the newest archive, with the reason why it is incomplete. With ``tables`` these are
    judged too.
    """

    def sliced(archive: Manifest) -> tuple[Manifest, dict[TopicPartition, LogCut], Refused | None]:
        cuts = _cuts(recovery, search, archive, wanted, None)
        streams = {topic.name for topic in archive.topics if topic.role is TopicRole.INPUT and not _is_table(topic, wanted)}
        judged = {tp: cut for tp, cut in cuts.items() if tables or tp.topic in streams}
        return archive, cuts, _why_incomplete(recovery, archive, judged, wanted)

    archives = search.archives()
    newest = sliced(next(archives))
    if newest[-1] is None:
        return newest
    return next((found for found in map(sliced, archives) if found[-1] is None), newest)


def _check_reach(base: Manifest, archive: Manifest, wanted: IntervalSlice) -> None:
    if archive.captured_at < wanted.closed:
        raise Refused(
            f"the inputs that savepoint {base.savepoint_id} had read are archived up to {moment(archive.captured_at)} only, and the interval is "
            f"complete at {moment(wanted.closed)}: their archive was begun anew since",
            next_step="process the interval without state (base none)",
        )


def _cuts(
    recovery: RecoveryContext, search: BaseSavepointFinder, archive: Manifest, wanted: IntervalSlice, base: Manifest | None
) -> dict[TopicPartition, LogCut]:
    reset, written = recovery.config.application.auto_offset_reset, search.written(archive, wanted.closed - 1)
    cuts = {}
    for topic in archive.topics:
        if topic.role not in CUT_ROLES or not topic.archived:
            continue
        table = _is_table(topic, wanted)
        before = None if base is None else base.topic(topic.name)
        read = {} if before is None else {image.partition: read_up_to(image, reset) for image in before.partitions}
        for image in topic.partitions:
            tp = TopicPartition(topic.name, image.partition)
            # With state, a stream goes on where the state ends; a table may be read from its topic.
            bounds = bounds_of(
                wanted,
                whole=table or base is not None,
                first=None if table else read.get(image.partition),
                archived_at=archive.captured_at,
                written=written.get(tp, 0),
            )
            cuts[tp] = slice_log(image.files(), bounds, lambda file, limits: look_into(recovery.repository, file, limits))
    return cuts


def _is_table(topic: TopicImage, wanted: IntervalSlice) -> bool:
    """True for what is taken from its beginning: a key that was set before the interval still has its value."""
    return topic.role is TopicRole.GLOBAL or topic.name in wanted.tables or compacts(topic.config)


def _why_incomplete(
    recovery: RecoveryContext, archive: Manifest, cuts: Mapping[TopicPartition, LogCut], wanted: IntervalSlice
) -> Refused | None:
    images = partition_images(archive.topics)
    missing = {
        tp: why
        for tp, cut in sorted(cuts.items())
        if (why := why_incomplete(tp, images[tp], cut.rows, wanted, partial(edge_stamps, recovery.repository))) is not None
    }
    if not missing:
        return None
    return Refused(
        f"not all input of the interval from {moment(wanted.interval.start)} may be archived: {'; '.join(list(missing.values())[:_NAMED])}",
        next_step="choose a later interval, or begin from the state of a savepoint (base savepoint)",
        missing=list(missing.values()),
        archived_from={str(tp): images[tp].archived_from for tp in missing},
    )


def _check_late(recovery: RecoveryContext, archive: Manifest, cuts: Mapping[TopicPartition, LogCut], wanted: IntervalSlice) -> None:
    """Raise ``Refused`` for records of the interval behind the end of their log, unless they are to be left out. Nothing shows whether they are late, or the
    record that ended the log has a wrong clock.
    """
    left = {tp: part for tp, cut in sorted(cuts.items()) if (part := cut.rows.slice) is not None and part.left and part.stop is not None}
    if not left or wanted.leave_late:
        return
    images, named, reach = partition_images(archive.topics), [], wanted.lateness
    for tp, part in left.items():
        stop = part.stop or 0
        file = next(file for file in images[tp].files() if file.first_offset <= stop <= file.last_offset)
        at = timestamp_at(recovery.repository, file, stop)
        reach = max(reach, at - wanted.last)
        named.append(f"{part.left:,} of {tp} behind offset {stop}, which is dated {moment(at)}")
    raise Refused(
        f"{sum(part.left for part in left.values()):,} records of the interval from {moment(wanted.interval.start)} come behind a record that is later than "
        f"lateness allows: {'; '.join(named[:_NAMED])}",
        next_step=f"give a lateness of at least PT{-(-reach // 1_000)}S, with which those records end nothing; or leave the late ones out (leave_late)",
        left={str(tp): part.left for tp, part in left.items()},
        ended_by={str(tp): part.stop for tp, part in left.items()},
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
    """The topic as it is processed. Gaps in inputs were judged already."""
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
