"""The plan of single topics that are brought back from a savepoint, beside a state that stays as it is. Changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from streams_recovery.core.application_kind import Dialect
from streams_recovery.core.errors import ApplicationRunning, NotFound, TargetNotEmpty
from streams_recovery.core.kafka_types import CommittedOffset, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.repository.survival import translate
from streams_recovery.core.restore.estimate import estimate
from streams_recovery.core.restore.parts.topics import TopicsPart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import Observed, OffsetToSet, PartitionLoad, TopicToCreate
from streams_recovery.core.restore.point_in_time import AsOf, LogCut
from streams_recovery.core.restore.rebuild import Placed
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.core.restore.single_topics import (
    HowKnown,
    KnownReads,
    OtherReader,
    ReadOn,
    SingleTopics,
    StateNow,
    WantedTopics,
    copy_config,
    gap_warnings,
    moved_since,
    offset_in_copy,
    read_position,
    refuse_unproven,
)
from streams_recovery.core.restore.topic_settings import TargetSettings, largest_record, left_out, setting_warnings
from streams_recovery.core.topic_holds.compaction_guard import owner_config
from streams_recovery.core.topic_holds.log import restore_hold
from streams_recovery.core.topic_settings import compacts
from streams_recovery.core.words import first_names
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import internal_topics, other_groups
from streams_recovery.operations.offsets import snapshots
from streams_recovery.operations.preflight import required_for_topics
from streams_recovery.operations.restore.checks import refuse_lost_settings, refuse_unwanted, spans, warnings
from streams_recovery.operations.restore.evidence import earlier_restores
from streams_recovery.operations.restore.placing import RestoreSource, target_settings, topic_to_create
from streams_recovery.operations.unfinished import refuse_if_unfinished
from streams_recovery.segments.queries import rows_below, rows_below_and_no_later


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsSource:
    """Single topics to bring back: ``images`` are what the savepoint ``manifest`` has of them, and ``cuts`` say which of their rows belong to ``as_of``,
    by the names they have there. Without a moment there are none. ``unreadable`` savepoints are newer, and were passed over.
    """

    manifest: Manifest
    images: tuple[TopicImage, ...]
    wanted: WantedTopics
    as_of: AsOf | None
    cuts: Mapping[TopicPartition, LogCut]
    read_on: ReadOn
    unreadable: tuple[str, ...] = ()

    @property
    def in_place(self) -> bool:
        """True when the topics come back under their own names."""
        return not self.wanted.new_name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """One topic and the target of its records: a topic that is made, in place of an empty one or of none, or the empty partitions of an existing topic."""

    image: TopicImage
    name: str
    existing: TopicDescription | None
    begins: Mapping[int, int]

    @property
    def filled(self) -> bool:
        """True when only partitions of an existing topic are loaded."""
        return bool(self.begins)


def plan_topics(recovery: RecoveryContext, source: TopicsSource) -> RestorePlan:
    """The plan of what ``source`` brings back.

    Raises ``TargetNotEmpty`` for topics that hold records, ``ApplicationRunning`` where the application's own topics would come back under a running one, and
    ``Refused`` for what the preflight finds and for offsets that nothing proves.
    """
    if source.in_place:
        refuse_if_unfinished(recovery)
        _check_gone(recovery)
    targets = _targets(recovery, source)
    wipes = source.in_place and any(_is_table(recovery, one) for one in source.images)
    made = {one.name: one.image for one in targets}
    found = required_for_topics(recovery, source.manifest, made, in_place=source.in_place, wipes=wipes)
    create, of_settings = _made(recovery, source, targets)
    offsets, known = _offsets(recovery, source, targets) if source.in_place else ((), {})
    planned = RestorePlan(
        application_id=recovery.application_id,
        source_application_id=recovery.application_id,
        savepoint_id=source.manifest.savepoint_id,
        captured_at=source.manifest.captured_at,
        consistency=source.manifest.consistency,
        # No state is replaced.
        safety=SafetyPolicy.SKIP,
        delete=(),
        create=create,
        offsets=offsets,
        strategy=source.read_on.value,
        offsets_agree=True,
        warnings=(
            *_passed_over(source),
            *gap_warnings(_wanted_images(source)),
            *_unlogged(recovery, wipes=wipes),
            *warnings(recovery, source.manifest, source.images),
            *of_settings,
            *_about_sizes(recovery, targets),
            *found,
        ),
        observed=Observed(
            instances=tuple(f"{i.name} ({i.detail})" for i in not_gone(recovery)),
            offsets_replaced={},
            offsets_before={},
            records_to_catch_up=sum(step.rows for step in create if step.role is TopicRole.INPUT) - _read(offsets, targets),
            readers=tuple(_readers(recovery, source, targets)),
        ),
        part=TopicsPart(single=_single(source, targets, known, wipes=wipes)),
    )
    return _timed(recovery, planned)


def _made(recovery: RecoveryContext, source: TopicsSource, targets: Sequence[_Target]) -> tuple[tuple[TopicToCreate, ...], tuple[str, ...]]:
    """The topics that are made or filled, and what is to be told of their settings."""
    whole = [one for one in targets if not one.filled]
    made = {one.name: one.image for one in whole}
    there = target_settings(recovery, [Placed(image=one.image, name=one.name, made=True) for one in whole])
    if source.in_place:
        refuse_lost_settings(recovery, made, there)
    create = tuple(_step(one, source, recovery.config.dialect, there) for one in targets)
    refuse_unwanted(recovery, create)
    # Nothing is in force on a copy until its owner says so.
    return create, setting_warnings(made, there) if source.in_place else left_out(made, there)


def _single(source: TopicsSource, targets: Sequence[_Target], known: dict[TopicPartition, HowKnown], *, wipes: bool) -> SingleTopics:
    cuts = [cut.rows for cut in source.cuts.values()]
    return SingleTopics(
        names={one.name: one.image.name for one in targets},
        in_place=source.in_place,
        partitions=source.wanted.partitions,
        filled={one.name: one.existing.topic_id for one in targets if one.filled and one.existing is not None},
        begins={TopicPartition(one.name, number): begin for one in targets for number, begin in one.begins.items()},
        as_of=source.as_of,
        later=sum(image.rows for image in _wanted_images(source).values()) - sum(cut.rows for cut in cuts) if source.as_of else 0,
        wipes=wipes,
        known=known,
    )


def _timed(recovery: RecoveryContext, planned: RestorePlan) -> RestorePlan:
    """The plan with an estimate of the steps that single topics take."""
    expected = estimate(planned.sizes, earlier_restores(recovery), recovery.config.restore.throttle)
    kept = {step: seconds for step, seconds in expected.seconds.items() if step in ("create", "load", "compare")}
    return replace(planned, observed=replace(planned.observed, estimate=replace(expected, seconds=kept)))


def _wanted_images(source: TopicsSource) -> dict[TopicPartition, PartitionImage]:
    wanted = source.wanted.partitions
    return {
        TopicPartition(topic.name, image.partition): image
        for topic in source.images
        for image in topic.partitions
        if not wanted or image.partition in wanted
    }


def _check_gone(recovery: RecoveryContext) -> None:
    alive = [f"{i.name} ({i.detail})" for i in not_gone(recovery)]
    group = recovery.groups.describe(recovery.application_id)
    members = [f"{member.client_id} at {member.host}" for member in group.members] if not group.empty else []
    if alive or not group.empty:
        raise ApplicationRunning(
            f"{recovery.application_id} is running: {', '.join((*alive, *members)) or group.state}",
            next_step="nothing was changed; stop it, so that it neither reads nor writes a topic that is half loaded; or bring the topic back as a copy under "
            "another name",
            instances=alive,
            members=members,
        )


def _targets(recovery: RecoveryContext, source: TopicsSource) -> list[_Target]:
    """The targets of the topics. Raises ``TargetNotEmpty`` for what holds records, and ``NotFound`` for partitions whose topic is gone."""
    names = {topic.name: source.wanted.new_name or topic.name for topic in source.images}
    existing = recovery.cluster.describe_topics(list(names.values()))
    if not source.in_place and existing:
        raise TargetNotEmpty(
            f"{', '.join(existing)} is there already, and nothing says whose it is",
            next_step="nothing was changed; choose a name that there is not",
            topics=sorted(existing),
        )
    if source.in_place and source.wanted.partitions:
        return [_partitions_of(recovery, topic, existing.get(topic.name), source.wanted.partitions) for topic in source.images]
    held = spans(recovery, existing)
    if held:
        listed = ", ".join(f"{name} ({count} offsets)" for name, count in sorted(held.items()))
        raise TargetNotEmpty(
            f"topics are there and hold records: {listed}",
            next_step="nothing was changed; bring one topic at a time back as a copy under another name; or, when only partitions of it are empty, those; or "
            "stop its producers, keep what was written since, and delete it",
            topics=held,
        )
    return [_Target(image=topic, name=names[topic.name], existing=existing.get(names[topic.name]), begins={}) for topic in source.images]


def _partitions_of(recovery: RecoveryContext, topic: TopicImage, existing: TopicDescription | None, wanted: Sequence[int]) -> _Target:
    if existing is None or existing.partitions != len(topic.partitions):
        there = "is gone" if existing is None else f"has {existing.partitions} partitions now, {len(topic.partitions)} at the savepoint"
        raise NotFound(
            f"{topic.name} {there}: single partitions come back only into the topic that they are of",
            next_step="nothing was changed; bring all partitions back, or these as a copy under another name",
            topic=topic.name,
        )
    partitions = [TopicPartition(topic.name, number) for number in wanted]
    starts, ends = recovery.cluster.log_starts(partitions), recovery.cluster.high_watermarks(partitions)
    filled = {str(tp): ends[tp] - starts[tp] for tp in partitions if ends[tp] > starts[tp]}
    if filled:
        raise TargetNotEmpty(
            f"partitions hold records: {', '.join(f'{name} ({count} offsets)' for name, count in filled.items())}",
            next_step="nothing was changed; bring these partitions back as a copy under another name",
            topics=filled,
        )
    return _Target(image=topic, name=topic.name, existing=existing, begins={tp.partition: ends[tp] for tp in partitions})


def _step(target: _Target, source: TopicsSource, dialect: Dialect, there: TargetSettings) -> TopicToCreate:
    placed = Placed(image=target.image, name=target.name, made=True)
    step = topic_to_create(placed, target.existing, RestoreSource(manifest=source.manifest, cuts=source.cuts), dialect, there)
    wanted = source.wanted.partitions
    if target.filled and target.existing is not None:
        final = owner_config(target.existing.config)
        parts = tuple(part for part in step.partitions if part.partition in wanted)
        return replace(step, replaces=None, held_config=restore_hold(final), final_config=final, partitions=parts)
    if not source.in_place:
        config = copy_config(step.final_config)
        nothing = SegmentFiles.of(())
        parts = tuple(
            part if not wanted or part.partition in wanted else PartitionLoad(partition=part.partition, files=nothing)
            for part in step.partitions
        )
        return replace(step, held_config=config, final_config=config, partitions=parts)
    return step


def _about_sizes(recovery: RecoveryContext, targets: Sequence[_Target]) -> tuple[str, ...]:
    """Warnings of records that a topic which is there may not take: its settings are its owner's."""
    limits = {one.name: recovery.cluster.max_message_bytes(one.name) for one in targets if one.filled}
    return tuple(
        f"{one.name} has a record of {largest:,} bytes in the savepoint, and takes {limits[one.name]:,} (max.message.bytes): it fits only as far as it can be "
        "compressed; raise it before you begin"
        for one in targets
        if one.filled and (largest := largest_record(one.image)) > limits[one.name]
    )


def _is_table(recovery: RecoveryContext, topic: TopicImage) -> bool:
    """True when a store may be restored from this topic in place of a changelog: the application notes offsets of it beside its local state."""
    if topic.role is TopicRole.INPUT:
        return topic.name in recovery.config.sources.values() or compacts(topic.config)
    return topic.role is TopicRole.GLOBAL


def _passed_over(source: TopicsSource) -> tuple[str, ...]:
    if not source.unreadable:
        return ()
    return (
        f"newer savepoints could not be read and were passed over: {first_names(source.unreadable)}; the command check says what is the matter with them",
    )


def _unlogged(recovery: RecoveryContext, *, wipes: bool) -> tuple[str, ...]:
    stores = [name for name, store in recovery.config.stores.items() if not store.logged] if wipes else []
    return tuple(f"store {name} has no changelog: with the local state its contents are lost" for name in stores)


def _offsets(
    recovery: RecoveryContext, source: TopicsSource, targets: Sequence[_Target]
) -> tuple[tuple[OffsetToSet, ...], dict[TopicPartition, HowKnown]]:
    inputs = [target for target in targets if target.image.role is TopicRole.INPUT]
    if not inputs:
        return (), {}
    newest = _newest_knowing(recovery, source, [target.image for target in inputs])
    moved = moved_since(newest, _state_now(recovery, newest), [target.image.name for target in targets])
    reset = recovery.config.application.auto_offset_reset
    offsets, known, unproven = [], {}, {}
    for target in inputs:
        committed = _committed(recovery, target)
        later = {image.partition: image for image in _image_of(newest, target.image).partitions}
        for image in target.image.partitions:
            if target.filled and image.partition not in target.begins:
                continue
            tp = TopicPartition(target.name, image.partition)
            reads = KnownReads(committed=committed.get(tp), newest=later[image.partition], unmoved=not moved)
            at = read_position(image, reads, reset, source.read_on)
            if at is None:
                unproven[tp] = (reads.newest.committed.offset if reads.newest.committed else image.archived_from, image.end)
                continue
            offset = offset_in_copy(
                tp,
                at.offset,
                image,
                source.cuts.get(tp),
                target.begins.get(image.partition, 0),
                below=lambda file, below: rows_below(recovery.repository, file, below),
                count=lambda file, below, cut: rows_below_and_no_later(recovery.repository, file, below, cut),
            )
            offsets.append(OffsetToSet(tp=tp, wanted=CommittedOffset(offset=offset, metadata=at.metadata)))
            known[tp] = at.known
    refuse_unproven(unproven, moved)
    return tuple(sorted(offsets, key=lambda item: item.tp)), known


def _newest_knowing(recovery: RecoveryContext, source: TopicsSource, inputs: Collection[TopicImage]) -> Manifest:
    """The newest savepoint that knows these inputs as the same topics: the application has read at least as far as that one says."""
    newest = recovery.savepoints.latest()
    if newest is None or newest.captured_at < source.manifest.captured_at:
        return source.manifest
    same = all((here := newest.topic(topic.name)) is not None and here.topic_id == topic.topic_id for topic in inputs)
    return newest if same and newest.cluster_id == source.manifest.cluster_id else source.manifest


def _image_of(manifest: Manifest, topic: TopicImage) -> TopicImage:
    found = manifest.topic(topic.name)
    return topic if found is None else found


def _state_now(recovery: RecoveryContext, manifest: Manifest) -> StateNow:
    internal = internal_topics(recovery)
    watched = {topic.name for topic in manifest.topics if topic.role.internal or topic.role is TopicRole.OUTPUT} | set(internal)
    topics = recovery.cluster.describe_topics(list(watched))
    partitions = [TopicPartition(name, number) for name, found in topics.items() for number in range(found.partitions)]
    return StateNow(
        topics=topics,
        internal=internal,
        ends=recovery.cluster.high_watermarks(partitions),
        committed={tp: found.offset for tp, found in recovery.groups.last_committed(recovery.application_id).items()},
    )


def _committed(recovery: RecoveryContext, target: _Target) -> dict[TopicPartition, CommittedOffset]:
    """The offsets that the group has committed on a topic that is still the one of the savepoint. On any other one it would count other records."""
    if target.existing is None or target.existing.topic_id != target.image.topic_id:
        return {}
    partitions = [TopicPartition(target.name, image.partition) for image in target.image.partitions]
    return {tp: found for tp, found in recovery.groups.committed(recovery.application_id, partitions).items() if found is not None}


def _read(offsets: Collection[OffsetToSet], targets: Collection[_Target]) -> int:
    begins = {TopicPartition(one.name, number): begin for one in targets for number, begin in one.begins.items()}
    return sum(item.wanted.offset - begins.get(item.tp, 0) for item in offsets)


def _readers(recovery: RecoveryContext, source: TopicsSource, targets: Sequence[_Target]) -> Iterator[OtherReader]:
    """Other groups that read these topics, or did when the savepoint was taken. A restore does not move them: the plan tells where they would go on."""
    if not source.in_place:
        return
    names = {target.name: target for target in targets}
    kinds, reading = recovery.cluster.groups(), recovery.groups.subscribed(but=recovery.application_id)
    seen: set[tuple[str, TopicPartition]] = set()
    for group in sorted({*other_groups(recovery), *reading}):
        there_yet = {} if kinds.get(group) in (None, "share") else recovery.groups.last_committed(group)
        for tp, found in sorted(((tp, found) for tp, found in there_yet.items() if tp.topic in names), key=lambda one: one[0]):
            seen.add((group, tp))
            there = _translated(recovery, source, names[tp.topic], tp, found.offset)
            yield OtherReader(group=group, tp=tp, before=found.offset, there=there, saved=False)
        for name in sorted((reading.get(group) or frozenset()) & set(names)):
            if not any(known == group and tp.topic == name for known, tp in seen):
                yield OtherReader(group=group, tp=TopicPartition(name, 0), before=None, there=None, saved=False)
    for group, tp, offset in _kept_offsets(recovery, source, names):
        if (group, tp) not in seen:
            there = _translated(recovery, source, names[tp.topic], tp, offset)
            yield OtherReader(group=group, tp=tp, before=offset, there=there, saved=True)


def _kept_offsets(
    recovery: RecoveryContext, source: TopicsSource, names: Mapping[str, _Target]
) -> Iterator[tuple[str, TopicPartition, int]]:
    if source.manifest.savepoint_id not in snapshots.ids(recovery):
        return
    for group in snapshots.find(recovery, source.manifest.savepoint_id).groups:
        for tp, found in sorted(group.offsets.items()):
            if tp.topic in names and group.topics.get(tp.topic) == names[tp.topic].image.topic_id:
                yield group.group_id, tp, found.offset


def _translated(recovery: RecoveryContext, source: TopicsSource, target: _Target, tp: TopicPartition, offset: int) -> int | None:
    """The offset of the record that this offset of the old log stands for; None for what is not archived, is cut, or counts another log."""
    image = next((one for one in target.image.partitions if one.partition == tp.partition), None)
    another = target.existing is not None and target.existing.topic_id != target.image.topic_id
    if (
        image is None
        or another
        or source.cuts
        or not image.archived_from <= offset <= image.end
        or any(gap.end > offset for gap in image.gaps)
    ):
        return None
    return translate(
        tp, offset, image, target.begins.get(tp.partition, 0), lambda file, below: rows_below(recovery.repository, file, below)
    )
