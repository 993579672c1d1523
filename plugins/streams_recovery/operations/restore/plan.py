"""The plan of a restore, from a savepoint and what is on the cluster now. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streams_recovery.application.port import InstanceState
from streams_recovery.core.kafka_types import TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.offsets.inputs import ChosenOffsets, Logs, choose_offsets, input_images
from streams_recovery.core.offsets.strategy import OffsetStrategy
from streams_recovery.core.repository.manifest import Manifest, PartitionImage
from streams_recovery.core.restore.estimate import Estimate, estimate
from streams_recovery.core.restore.placement import Placed, Target, place, target_name
from streams_recovery.core.restore.plan import Observed, OffsetToSet, PartitionLoad, RestorePlan, RestoreRequest, TopicToCreate
from streams_recovery.core.savepoint.survival import archive_begins
from streams_recovery.core.topic_holds.compaction_guard import owner_config
from streams_recovery.core.topic_holds.log import restore_hold
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import claimed
from streams_recovery.operations.preflight import required_for_restore
from streams_recovery.operations.restore.chosen_savepoint import check_confirmed
from streams_recovery.operations.restore.in_place import later_topics, look
from streams_recovery.operations.restore.job_specs import throttle
from streams_recovery.operations.restore.kept_inputs import check_kept
from streams_recovery.operations.restore.payload_checks import check_values, check_whole, warnings
from streams_recovery.operations.restore.point_in_time import of_moment, resolve
from streams_recovery.operations.restore.rebuild import plan_rebuild
from streams_recovery.operations.restore.report import earlier_restores, sizes_of
from streams_recovery.operations.restore.source import RestoreSource
from streams_recovery.operations.restore.target_checks import (
    refuse_existing_inputs,
    refuse_existing_state,
    spans,
    unknown_topics,
    without_copies,
)
from streams_recovery.operations.restore.topics_only import Archived, choose_archive
from streams_recovery.segments.queries import rows_below

# Settings a newer broker may not know or that belong to the place, not to the data, are left to the cluster's defaults.
RESTORED_SETTINGS = frozenset(
    {
        "cleanup.policy",
        "compression.type",
        "delete.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.ms",
    }
)


def plan(recovery: RecoveryContext, request: RestoreRequest, *, mine: dict[str, set[str]] | None = None) -> RestorePlan:
    """What this restore would do now. ``mine`` has the ids of topics that an earlier attempt of the same restore created; those count as absent.

    Raises ``NotFound`` without a savepoint, ``NotExact`` for one whose label was not allowed, ``TargetNotEmpty`` for internal topics that hold
    records and may not be replaced, ``Refused`` for topics that cannot be placed and for what was not confirmed.
    What the preflight finds in the way is refused first, all of it at once. A request without a savepoint is planned by ``plan_rebuild``.
    """
    if request.from_input:
        return plan_rebuild(recovery, request, _archived(recovery, request))
    check_confirmed(recovery, request)
    begin = resolve(recovery, request)
    manifest = begin.manifest
    cut = later_topics(begin) if request.in_place else ()
    found = required_for_restore(recovery, manifest, request, cut={topic.name for topic in cut})
    present = _present(recovery, manifest, mine or {})
    filled = spans(recovery, present)
    placed = place(manifest, _target(recovery, _staying(recovery, request, begin, present, {topic.name for topic in cut}), filled))
    if begin.point is not None and not request.in_place:
        refuse_existing_inputs(placed)
    made = [one.image for one in placed if one.made]
    check_whole(made)
    check_values(made)
    held = {one.name: filled[one.name] for one in placed if one.made and one.name in filled}
    if not request.replace:
        refuse_existing_state(recovery, held)
    chosen = _offsets(recovery, placed, request.offsets, begin)
    kept = check_kept(recovery, placed, present, request.offsets)
    planned = RestorePlan(
        application_id=recovery.application_id,
        source_application_id=manifest.application_id,
        savepoint_id=manifest.savepoint_id,
        captured_at=manifest.captured_at,
        consistency=manifest.consistency,
        safety=request.safety,
        delete=unknown_topics(recovery, manifest, {one.name for one in placed}, request),
        create=tuple(_create(one, present.get(one.name), begin) for one in placed if one.made),
        offsets=chosen.offsets,
        strategy=request.offsets.text,
        offsets_agree=chosen.agree,
        warnings=(*_warnings(recovery), *chosen.warnings, *kept, *warnings(recovery, manifest, made), *of_moment(begin, placed), *found),
        observed=_observe(recovery, chosen.offsets, placed, held, begin),
        point=begin.point,
        # Last, and right before what it is about: the longest look, which has to hold until then.
        in_place=look(recovery, request, begin, present, cut) if request.in_place else None,
        claimed=claimed(recovery),
    )
    return replace(planned, observed=replace(planned.observed, estimate=_expected(recovery, planned)))


def _archived(recovery: RecoveryContext, request: RestoreRequest) -> Archived | None:
    """What a rebuild has to make from a savepoint, None when it was told of none."""
    if not request.inputs_from:
        return None
    manifest = choose_archive(recovery, request)
    present = _present(recovery, manifest, {})
    placed = [one for one in place(manifest, _target(recovery, present, spans(recovery, present))) if one.made]
    check_values([one.image for one in placed])
    begin = RestoreSource(manifest=manifest, cuts={}, point=None)
    return Archived(
        manifest=manifest,
        create=tuple(_create(one, present.get(one.name), begin) for one in placed),
        begins={tp: archive_begins(image) for tp, (_, image) in input_images(placed).items()},
    )


def _expected(recovery: RecoveryContext, planned: RestorePlan) -> Estimate:
    return estimate(sizes_of(planned), earlier_restores(recovery), throttle(recovery))


def _present(recovery: RecoveryContext, manifest: Manifest, mine: dict[str, set[str]]) -> dict[str, TopicDescription]:
    names = [target_name(topic, manifest, recovery.application_id, recovery.config.restore.topic_map) for topic in manifest.topics]
    existing = recovery.cluster.describe_topics(names)
    return {name: found for name, found in existing.items() if found.topic_id not in mine.get(name, set())}


def _staying(
    recovery: RecoveryContext, request: RestoreRequest, begin: RestoreSource, present: dict[str, TopicDescription], cut: set[str]
) -> dict[str, TopicDescription]:
    """Topics that are there and are not made again, inputs and outputs only: copies are made for each restore, and inputs that are cut are."""
    if request.in_place:
        images = {topic.name: topic.topic_id for topic in begin.manifest.topics}
        return {name: found for name, found in present.items() if name not in cut or found.topic_id != images.get(name)}
    return present if begin.point is None else without_copies(recovery, present)


def _target(recovery: RecoveryContext, present: dict[str, TopicDescription], filled: dict[str, int]) -> Target:
    topics = recovery.config.topics
    return Target(
        application_id=recovery.application_id,
        cluster_id=recovery.cluster.cluster_id(),
        existing=present,
        filled=filled,
        topic_map=recovery.config.restore.topic_map,
        declared={TopicRole.INPUT: topics.inputs, TopicRole.OUTPUT: topics.outputs, TopicRole.GLOBAL: topics.globals},
    )


def _warnings(recovery: RecoveryContext) -> tuple[str, ...]:
    unlogged = [name for name, store in recovery.config.stores.items() if not store.logged]
    return tuple(f"store {name} has no changelog: it begins empty, and fills only with what is processed from now on" for name in unlogged)


def _create(placed: Placed, existing: TopicDescription | None, begin: RestoreSource) -> TopicToCreate:
    topic = placed.image
    final = {key: value for key, value in topic.config.items() if key in RESTORED_SETTINGS}
    if begin.point is not None and begin.point.slice is not None and topic.role is TopicRole.OUTPUT:
        # Results of the past would expire as soon as they are written.
        final |= {"retention.ms": "-1", "retention.bytes": "-1"}
    if existing is not None and topic.role is TopicRole.INPUT and existing.topic_id == topic.topic_id:
        # What its owner has set on it, all of which it gets again.
        final = owner_config(existing.config)
    return TopicToCreate(
        name=placed.name,
        role=topic.role,
        replication_factor=topic.replication_factor,
        held_config=restore_hold(final),
        final_config=final,
        replaces=existing.topic_id if existing else None,
        partitions=tuple(_load(topic.name, image, begin) for image in topic.partitions),
    )


def _load(topic: str, image: PartitionImage, begin: RestoreSource) -> PartitionLoad:
    cut = begin.cuts.get(TopicPartition(topic, image.partition))
    files = tuple(image.files()) if cut is None else cut.files
    compacted = any(copied.compacted for copied in image.ranges if copied.file)
    return PartitionLoad(partition=image.partition, files=files, cut=None if cut is None else cut.rows, compacted=compacted)


def _offsets(recovery: RecoveryContext, placed: Sequence[Placed], strategy: OffsetStrategy, begin: RestoreSource) -> ChosenOffsets:
    cluster, inputs = recovery.cluster, input_images(placed)
    kept = [tp for tp, (one, _) in inputs.items() if not one.made]
    # What is made begins at 0 and ends behind the rows that will be loaded.
    new = {tp: _load(one.image.name, image, begin).rows for tp, (one, image) in inputs.items() if one.made}
    logs = Logs(
        starts=dict.fromkeys(new, 0) | cluster.log_starts(kept),
        stable=new | cluster.last_stable_offsets(kept),
        ends=new | cluster.high_watermarks(kept),
        at_time={} if (moment := strategy.moment(recovery.clock())) is None else cluster.offsets_for_times(kept, moment),
    )
    reset = recovery.config.application.auto_offset_reset
    return choose_offsets(placed, strategy, logs, auto_offset_reset=reset, rows_below=lambda f, c: rows_below(recovery.repository, f, c))


def _observe(
    recovery: RecoveryContext, offsets: tuple[OffsetToSet, ...], placed: Sequence[Placed], held: dict[str, int], begin: RestoreSource
) -> Observed:
    kept = {one.name for one in placed if one.image.role is TopicRole.INPUT and not one.made}
    inputs = {one.name for one in placed if one.image.role is TopicRole.INPUT}
    made = [(one, image) for one in placed if one.made for image in one.image.partitions]
    rows = {TopicPartition(one.name, image.partition): _load(one.image.name, image, begin).rows for one, image in made}
    ends = rows | recovery.cluster.high_watermarks([item.tp for item in offsets if item.topic in kept])
    wanted = [item for item in offsets if item.topic in inputs]
    before = recovery.groups.committed(recovery.application_id, [item.tp for item in wanted])
    return Observed(
        instances=tuple(f"{i.name} ({i.detail})" for i in recovery.application.status() if i.state is not InstanceState.GONE),
        offsets_replaced=held,
        offsets_before={str(tp): known.offset for tp, known in before.items() if known is not None},
        records_to_catch_up=sum(max(0, ends[item.tp] - item.offset) for item in wanted),
    )
