"""Inputs that are cut where they are: what has to be proven first, and what is written down before the first of them is deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from streams_recovery.core.codec import MOST_BYTES
from streams_recovery.core.errors import PlanChanged, Refused
from streams_recovery.core.jobs.spec import CutBy, RowCut
from streams_recovery.core.kafka_types import (
    CommittedOffset,
    TopicDescription,
    TopicPartition,
    TopicRole,
)
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage, partition_images
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.restore.parts.moment import MomentPart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.point_in_time import (
    InPlace,
    LaterPartition,
    LaterTopic,
    LogCut,
    MovedOffset,
    OtherGroup,
    QuarantineEntry,
    check_stood_still,
    rank,
    rest_of,
    uncovered,
)
from streams_recovery.core.restore.request import AS_OF, IN_PLACE
from streams_recovery.core.waiting import pause
from streams_recovery.operations import unfinished
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import other_groups
from streams_recovery.operations.restore.inputs_there import kept_inputs
from streams_recovery.operations.restore.placing import RestoreSource
from streams_recovery.operations.restore.values import RestoreTicket
from streams_recovery.segments.queries import rows_below_and_no_later
from streams_recovery.storage.append_log import AppendLog

_NAMED = 5


def later_topics(begin: RestoreSource) -> tuple[LaterTopic, ...]:
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
    begin: RestoreSource,
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
    groups = _other_groups(recovery, may_move, {one.name for one in cut})
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


def _living_inputs(recovery: RecoveryContext, begin: RestoreSource, present: Mapping[str, TopicDescription]) -> list[TopicImage]:
    # As the archive has them, not as the base: what comes out has to be whole too.
    archive = _archive(recovery, begin)
    return [
        topic
        for topic in archive.topics
        if topic.role is TopicRole.INPUT and topic.name in present and present[topic.name].topic_id == topic.topic_id
    ]


def _archive(recovery: RecoveryContext, begin: RestoreSource) -> Manifest:
    if begin.part.archive is None:
        raise Refused("inputs are cut only for a moment", next_step=f"name one ({AS_OF.shown}), or leave out {IN_PLACE.shown}")
    return recovery.savepoints.read(begin.part.archive)


def check_still(recovery: RecoveryContext, partitions: Collection[TopicPartition], seconds: float) -> None:
    """Look twice, so far apart, at ends and at how far producers have come. Raises ``Refused`` naming what moved."""
    first = _seen(recovery, partitions)
    pause(seconds, f"producers to show themselves in {len(partitions)} partitions of inputs")
    check_stood_still(first, _seen(recovery, partitions), seconds)


def _seen(recovery: RecoveryContext, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
    written, ends = recovery.transactions.written(partitions), recovery.cluster.high_watermarks(list(partitions))
    return {tp: (ends[tp], written[tp]) for tp in partitions}


def _other_groups(recovery: RecoveryContext, may_move: Collection[str], names: Collection[str]) -> list[OtherGroup]:
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


def _moved_offsets(recovery: RecoveryContext, begin: RestoreSource, groups: Collection[OtherGroup]) -> tuple[MovedOffset, ...]:
    """The offsets of these groups on the inputs that are cut, as they will be."""
    moved = []
    for group in groups:
        for tp, known in sorted(recovery.groups.committed(group.name, group.committed).items()) if group.committed else ():
            if known is not None:
                moved.append(_moved(recovery, begin, group.name, tp, known))
    return tuple(moved)


def _moved(recovery: RecoveryContext, begin: RestoreSource, group_id: str, tp: TopicPartition, known: CommittedOffset) -> MovedOffset:
    [image] = [i for t in begin.manifest.topics if t.name == tp.topic for i in t.partitions if i.partition == tp.partition]
    cut = begin.cuts[tp]
    everything = RowCut(by=CutBy.POSITION, moment=cut.rows.moment, first_later=None, rows=image.rows, late=0)

    def before(part: LogCut) -> int:
        return rank(part, known.offset, lambda file, offset, at: rows_below_and_no_later(recovery.repository, file, offset, at))

    offset = before(cut)
    again = before(LogCut(files=tuple(image.files()), rows=everything)) - offset
    return MovedOffset.of(group_id, tp, known, offset=offset, again=again)


def quarantine_log(recovery: RecoveryContext, restore_id: str) -> AppendLog[QuarantineEntry]:
    """The log of the later input that a restore has set aside."""
    return AppendLog(recovery.repository, recovery.layout.quarantine(restore_id), QuarantineEntry, most_bytes=MOST_BYTES)


def set_aside(recovery: RecoveryContext, ticket: RestoreTicket, approved: RestorePlan, now: RestorePlan) -> None:
    """The last thing before inputs are deleted: that they end where they were proven to, and that what comes out of them is kept and written down.

    Raises ``PlanChanged`` when something has come since, or another group has moved.
    """
    if not (isinstance(now.part, MomentPart) and isinstance(approved.part, MomentPart)):
        return
    here, shown, point = now.part.in_place, approved.part.in_place, now.part.point
    if here is None or shown is None:
        return
    # Repeated after some of it is done, this finds less, but nothing else.
    more = [name for name, topics in here.begin_anew.items() if set(topics) - set(shown.begin_anew.get(name, ()))]
    if set(here.later) - set(shown.later) or set(here.groups) - set(shown.groups) or more or set(here.unseen) - set(shown.unseen):
        raise PlanChanged(
            "other records would come out of the inputs, or other offsets be moved, than was approved",
            next_step="nothing was changed; stop every reader of the inputs, and begin again",
        )
    _check_ends(recovery, here)
    log = quarantine_log(recovery, ticket.restore_id)
    if here.later and log.last() is None:
        # Pinned before it is written down that the records are there: expiry must never take a savepoint that an entry names.
        unfinished.pin(
            recovery,
            point.archive,
            keep=True,
            requested_by=ticket.requested_by,
            reason=f"has the later input of restore {ticket.restore_id}",
            restore_id=ticket.restore_id,
        )
        log.append(
            QuarantineEntry(
                kind="set-aside",
                at=recovery.clock(),
                run=ticket.restore_id,
                savepoint_id=point.archive,
                moment=point.as_of.moment,
                topics=here.later,
            )
        )
        # Again: the pin and the entry took time, and the inputs are deleted next.
        _check_ends(recovery, here)


def _check_ends(recovery: RecoveryContext, here: InPlace) -> None:
    ends = recovery.cluster.high_watermarks(list(here.ends)) if here.ends else {}
    come = sorted(str(tp) for tp, end in ends.items() if end != here.ends[tp])
    if come:
        raise PlanChanged(
            f"a producer has written to {', '.join(come)} since the check that its producers are stopped",
            next_step="no input was touched; stop every producer of the inputs, take a savepoint, and begin again",
            topics=come,
        )
