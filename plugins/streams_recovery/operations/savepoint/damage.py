"""Damage of state: is the present state a continuation of the state that the savepoint before saw?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from streams_recovery.core.codec import MOST_BYTES
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.kafka_types import ClaimedTopic, Profile, TopicPartition, TopicRole
from streams_recovery.core.repository import check
from streams_recovery.core.repository.check import CheckReport, worst_first
from streams_recovery.core.repository.manifest import Manifest, PartitionCut, partition_images
from streams_recovery.core.savepoint.damage import (
    ChangedState,
    Damage,
    DamageKind,
    StateTopic,
    changed_topics,
    missing_changelogs,
    require_whole,
    restored,
)
from streams_recovery.core.topic_settings import expires
from streams_recovery.core.words import new_id
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import Discovery
from streams_recovery.operations.savepoint.values import CopyPlan, CutDraft, Ticket
from streams_recovery.operations.unfinished import restore_journals
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.json_object import UNREADABLE
from streams_recovery.storage.range_tables import PartitionRanges


def last_savepoint(recovery: RecoveryContext) -> Manifest | None:
    """The newest savepoint of this cluster that can be read and that says what the state was: neither damaged nor edited. None when there is none."""
    here = recovery.cluster.cluster_id()
    for savepoint_id in reversed(recovery.savepoints.ids()):
        try:
            found = recovery.savepoints.outline(savepoint_id)
        except Damaged:
            continue
        if found.cluster_id == here and not found.taken_by_name:
            return found
    return None


def note_lost_files(recovery: RecoveryContext, run: str) -> CheckReport:
    """Look for missing files in all savepoints, because one savepoint was found to lack some, and store the result as a check: the status and alerts show the
    newest one. Unreadable savepoints are told of without it.
    """
    manifests: list[Manifest] = []
    opened: dict[str, PartitionRanges] = {}
    for savepoint_id in recovery.savepoints.ids():
        with suppress(Damaged, NotFound, *UNREADABLE):
            manifests.append(recovery.savepoints.read(savepoint_id, opened))
    files, described = check.files_of(manifests, opened)
    sizes = recovery.repository.sizes(recovery.layout.segments)
    problems = [problem for one in files if (problem := check.size_problem(one, sizes.get(one.file.key))) is not None]
    report = CheckReport(
        check_id=new_id(recovery.clock(), run),
        application_id=recovery.application_id,
        level=check.parse_level("structure").name,
        savepoints=len(manifests),
        minimal=sum(manifest.profile is Profile.MINIMAL for manifest in manifests),
        records=0,
        files=len(files) - len(problems),
        files_read=0,
        rows_read=0,
        findings=tuple(worst_first((*described, *problems))),
    )
    AppendLog(recovery.repository, recovery.layout.check(report.check_id), CheckReport, most_bytes=MOST_BYTES).append(report)
    return report


def epoch_ends(recovery: RecoveryContext, last: Manifest | None, there: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
    """The present end of each log that is still ``there``, for the leader epoch in ``last``, a savepoint of this cluster."""
    if last is None:
        return {}
    images = partition_images(last.topics)
    wanted = set(there) & set(images)
    return recovery.cluster.epoch_ends({tp: epoch for tp in wanted if (epoch := images[tp].leader_epoch) is not None})


def damage_before(recovery: RecoveryContext, found: Discovery) -> tuple[Damage, ...]:
    """Find what is wrong with the application's internal topics, before anything is held. Their records must be part of the savepoint."""
    last = last_savepoint(recovery)
    partitions = found.partitions(TopicRole.CHANGELOG, TopicRole.REPARTITION)
    starts, ends = recovery.cluster.log_starts(partitions), recovery.cluster.high_watermarks(partitions)
    cuts = [
        PartitionCut(
            tp=tp,
            log_start=starts[tp],
            last_stable=ends[tp],
            end=ends[tp],
            leader_epoch=found.topics[tp.topic].leader_epochs[tp.partition],
            committed=None,
        )
        for tp in partitions
    ]
    named = [(topic.name, topic.role, found.topics[topic.name].topic_id) for topic in found.inventory.topics]
    topics = _state_topics(named, cuts, recovery.cluster.settings({tp.topic for tp in partitions}))
    return _damage_of(recovery, topics, found.inventory.claimed, last, epoch_ends(recovery, last, partitions))


def damage_of_cut(
    recovery: RecoveryContext,
    ticket: Ticket,
    draft: CutDraft,
    last: Manifest | None,
    ends: Mapping[TopicPartition, int | None],
    settings: Mapping[str, Mapping[str, str]],
) -> tuple[Damage, ...]:
    """Find what is wrong with the state of this cut. A restore's own savepoint says already which topics it found gone. ``last`` is the savepoint of this
    cluster to compare with.
    """
    if recovery.config.backup.profile is not Profile.FULL and not ticket.safety:
        return ()
    cuts = [cut for topic in draft.topics for cut in topic.partitions]
    topics = _state_topics([(topic.name, topic.role, topic.topic_id) for topic in draft.topics], cuts, settings)
    found = _damage_of(recovery, topics, draft.claimed, last, ends)
    gone = (DamageKind.MISSING, DamageKind.VANISHED)
    return tuple(one for one in found if one.kind not in gone or one.topic not in ticket.expected)


def with_damage(plan: CopyPlan, ticket: Ticket, found: tuple[Damage, ...]) -> CopyPlan:
    """The plan of a copy of damaged state, if the request allows one. Raises ``StateDamaged``. State that a restore is about to replace is saved as it is."""
    if not ticket.safety:
        require_whole(ticket.application_id, found, ticket.request.changed_state)
        if ticket.request.changed_state is ChangedState.INTENDED:
            return replace(plan, intended=tuple(map(str, found)))
    return replace(plan, damage=tuple(map(str, found)))


def _state_topics(
    topics: Iterable[tuple[str, TopicRole, str]], cuts: Collection[PartitionCut], settings: Mapping[str, Mapping[str, str]]
) -> tuple[StateTopic, ...]:
    """The internal ones of these topics (name, role, id), with their partitions and what is in force on them."""
    return tuple(
        StateTopic(
            name=name,
            role=role,
            topic_id=topic_id,
            expires=expires(settings[name]),
            partitions=tuple(cut for cut in cuts if cut.tp.topic == name),
        )
        for name, role, topic_id in topics
        if role.internal
    )


def _damage_of(
    recovery: RecoveryContext,
    topics: Collection[StateTopic],
    claimed: Iterable[ClaimedTopic],
    last: Manifest | None,
    ends: Mapping[TopicPartition, int | None],
) -> tuple[Damage, ...]:
    """Find what is wrong with internal topics that no restore of ours explains, compared with ``last``, a savepoint of this cluster. ``ends`` are the ends of
    its leader epochs.
    """
    missing = missing_changelogs(recovery.config.changelogs, {topic.name for topic in topics})
    if last is None:
        return missing
    changed = changed_topics(last, topics, claimed, ends)
    if changed:
        explained = restored(restore_journals(recovery), last.captured_at)
        changed = tuple(one for one in changed if not explained.explains(one))
    named = {one.topic for one in missing}
    return (*missing, *(one for one in changed if one.topic not in named))
