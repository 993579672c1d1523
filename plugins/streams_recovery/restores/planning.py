"""The plan of a restore in place, from a savepoint and what is on the cluster now. Changes nothing."""

from __future__ import annotations

from streams_recovery.application.port import InstanceState
from streams_recovery.core.errors import NotExact, NotFound, Refused, TargetNotEmpty
from streams_recovery.core.hold import RESTORE_HOLD
from streams_recovery.core.manifest import Manifest, PartitionImage, TopicImage
from streams_recovery.core.model import Consistency, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.offsets import translate
from streams_recovery.core.plan import Observed, OffsetToSet, PartitionLoad, RestorePlan, RestoreRequest, TopicToCreate
from streams_recovery.segments import rows_below
from streams_recovery.survey import internal_topics
from streams_recovery.workbench import Workbench

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


def plan(bench: Workbench, request: RestoreRequest, *, mine: dict[str, set[str]] | None = None) -> RestorePlan:
    """What this restore would do now. ``mine`` has the ids of topics that an earlier attempt of the same restore created; those count as absent.

    Raises ``NotFound`` without a savepoint, ``NotExact`` for an ``ahead`` one that was not allowed, ``TargetNotEmpty`` for internal topics
    that hold records, ``Refused`` for inputs that are not those of the savepoint.
    """
    if bench.config.restore.time_window_end is not None:
        raise Refused(
            "restore.time_window_end is set, and restores to a point in time are not built yet: this one would bring back all of a savepoint",
            next_step="remove restore.time_window_end from the configuration to restore a savepoint as it is",
        )
    manifest = _choose(bench, request)
    internal = [topic for topic in manifest.topics if topic.role.internal]
    existing = bench.cluster.describe_topics([topic.name for topic in manifest.topics])
    _check_inputs(bench, manifest, existing)
    _check_values(manifest)
    ours = mine or {}
    present = {name: found for name, found in existing.items() if found.topic_id not in ours.get(name, set())}
    _check_empty(bench, [topic.name for topic in internal if topic.name in present], present)
    _check_unknown(bench, manifest)
    offsets = tuple(_offsets(bench, manifest))
    return RestorePlan(
        application_id=manifest.application_id,
        savepoint_id=manifest.savepoint_id,
        captured_at=manifest.captured_at,
        consistency=manifest.consistency,
        create=tuple(_create(topic, present.get(topic.name)) for topic in internal),
        offsets=offsets,
        warnings=_warnings(bench),
        observed=_observe(bench, offsets, manifest),
    )


def _warnings(bench: Workbench) -> tuple[str, ...]:
    unlogged = [name for name, store in bench.config.stores.items() if not store.logged]
    return tuple(f"store {name} has no changelog: it begins empty, and fills only with what is processed from now on" for name in unlogged)


def _choose(bench: Workbench, request: RestoreRequest) -> Manifest:
    if request.savepoint != "latest":
        manifest = bench.savepoints.read(request.savepoint)
    else:
        newest = bench.savepoints.latest(consistency=None if request.allow_ahead else Consistency.EXACT)
        if newest is None:
            raise NotFound(
                f"{bench.application_id} has no {'' if request.allow_ahead else 'exact '}savepoint in {bench.repository.location}",
                next_step="take one first, or check the storage section of the configuration",
                application_id=bench.application_id,
            )
        manifest = newest
    if manifest.consistency is Consistency.AHEAD and not request.allow_ahead:
        raise NotExact(
            f"savepoint {manifest.savepoint_id} is `ahead`: {'; '.join(manifest.proof.reasons)}",
            next_step="choose an exact savepoint, or set allow_ahead and accept that some input is counted twice",
            savepoint=manifest.savepoint_id,
        )
    return manifest


def _check_inputs(bench: Workbench, manifest: Manifest, existing: dict[str, TopicDescription]) -> None:
    problems = []
    inputs = [topic for topic in manifest.topics if topic.role is TopicRole.INPUT]
    for topic in inputs:
        found = existing.get(topic.name)
        if found is None:
            problems.append(f"input {topic.name} is gone")
        elif found.topic_id != topic.topic_id:
            problems.append(
                f"input {topic.name} was created again (id {topic.topic_id} became {found.topic_id}): its offsets mean nothing now"
            )
        elif found.partitions != len(topic.partitions):
            problems.append(f"input {topic.name} has {found.partitions} partitions, {len(topic.partitions)} at the savepoint")
    if not problems:
        problems = _out_of_reach(bench, inputs)
    if problems:
        raise Refused(
            f"{manifest.application_id} cannot be restored in place: {'; '.join(problems)}",
            next_step="restore into another cluster with the inputs, or rebuild from the input",
            problems=problems,
        )


def _out_of_reach(bench: Workbench, inputs: list[TopicImage]) -> list[str]:
    partitions = [TopicPartition(topic.name, image.partition) for topic in inputs for image in topic.partitions]
    starts, ends = bench.cluster.log_starts(partitions), bench.cluster.high_watermarks(partitions)
    return [
        f"{topic.name}-{image.partition}: committed offset {image.committed.offset} is outside [{starts[tp]}, {ends[tp]}]"
        for topic in inputs
        for image in topic.partitions
        if image.committed is not None
        and not starts[tp := TopicPartition(topic.name, image.partition)] <= image.committed.offset <= ends[tp]
    ]


def _check_values(manifest: Manifest) -> None:
    for tp, file in manifest.files():
        if file.min_timestamp <= 0:
            raise Refused(
                f"{file.key} holds a record of {tp} with timestamp {file.min_timestamp}; the producer would replace it by the current time",
                next_step="restore an application with such records into a test cluster and compare, or choose another savepoint",
                key=file.key,
                topic=tp.topic,
                partition=tp.partition,
            )


def _check_empty(bench: Workbench, names: list[str], existing: dict[str, TopicDescription]) -> None:
    partitions = [TopicPartition(name, number) for name in names for number in range(existing[name].partitions)]
    starts, ends = bench.cluster.log_starts(partitions), bench.cluster.high_watermarks(partitions)
    held: dict[str, int] = {}
    for tp in partitions:
        if ends[tp] > starts[tp]:
            held[tp.topic] = held.get(tp.topic, 0) + ends[tp] - starts[tp]
    if held:
        listed = ", ".join(f"{name} ({count} offsets)" for name, count in sorted(held.items()))
        raise TargetNotEmpty(
            f"internal topics of {bench.application_id} are not empty: {listed}",
            next_step="nothing was changed; if this state is really to be replaced, stop the application and delete these topics first",
            topics=held,
        )


def _check_unknown(bench: Workbench, manifest: Manifest) -> None:
    known = {topic.name for topic in manifest.topics}
    unknown = [name for name in internal_topics(bench) if name not in known]
    if unknown:
        # The application would take up what is in them: state of another time than all the rest.
        raise TargetNotEmpty(
            f"{bench.application_id} has internal topics that savepoint {manifest.savepoint_id} does not know: {', '.join(unknown)}",
            next_step="nothing was changed; choose a savepoint of this version of the application; if they are this application's and not those "
            "of another one whose name begins like it, stop it and delete them first",
            topics=unknown,
        )


def _create(topic: TopicImage, existing: TopicDescription | None) -> TopicToCreate:
    final = {key: value for key, value in topic.config.items() if key in RESTORED_SETTINGS}
    return TopicToCreate(
        name=topic.name,
        role=topic.role,
        replication_factor=topic.replication_factor,
        held_config={key: value for key, value in final.items() if key != "max.compaction.lag.ms"} | RESTORE_HOLD,
        final_config=final,
        replaces_empty=existing.topic_id if existing else None,
        partitions=tuple(PartitionLoad(partition=image.partition, files=tuple(image.files())) for image in topic.partitions),
    )


def _offsets(bench: Workbench, manifest: Manifest) -> list[OffsetToSet]:
    result = []
    for topic in manifest.topics:
        if topic.role not in (TopicRole.INPUT, TopicRole.REPARTITION):
            continue
        for image in topic.partitions:
            tp = TopicPartition(topic.name, image.partition)
            offset = _position(bench, tp, topic.role, image)
            metadata = image.committed.metadata if image.committed else ""
            result.append(OffsetToSet(topic=tp.topic, partition=tp.partition, offset=offset, metadata=metadata))
    return result


def _position(bench: Workbench, tp: TopicPartition, role: TopicRole, image: PartitionImage) -> int:
    if role is TopicRole.REPARTITION:
        # Created empty, so the first restored row gets offset 0. Without a commit nothing of it was read: begin at the first row.
        return (
            0
            if image.committed is None
            else translate(tp, image.committed.offset, image, 0, lambda f, c: rows_below(bench.repository, f, c))
        )
    if image.committed is not None:
        return image.committed.offset
    # Never committed: the application would begin by its own policy. Say it, instead of leaving it to whatever policy it is started with.
    return image.end if bench.config.application.auto_offset_reset == "latest" else image.log_start


def _observe(bench: Workbench, offsets: tuple[OffsetToSet, ...], manifest: Manifest) -> Observed:
    inputs = {topic.name for topic in manifest.topics if topic.role is TopicRole.INPUT}
    wanted = [item for item in offsets if item.topic in inputs]
    ends = bench.cluster.high_watermarks([item.tp for item in wanted])
    before = bench.groups.committed(bench.application_id, [item.tp for item in wanted])
    return Observed(
        instances=tuple(f"{i.name} ({i.detail})" for i in bench.application.status() if i.state is not InstanceState.GONE),
        offsets_before={str(tp): known.offset for tp, known in before.items() if known is not None},
        records_to_catch_up=sum(max(0, ends[item.tp] - item.offset) for item in wanted),
    )
