"""A savepoint whose records are placed anew: the job that proves where they lie and writes them, and the savepoint of the same moment. No cluster is asked."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.jobs.volume import JobVolume
from streams_recovery.core.kafka_types import StoreKind, TopicRole
from streams_recovery.core.names import store_kind, store_name
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, Provenance, TopicImage
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.rescale.moved import (
    PartitionToPlace,
    RescaleResult,
    RescaleSpec,
    TopicToPlace,
    check_base,
    check_proofs,
    check_result,
    moved,
    unread_from,
)
from streams_recovery.core.rescale.placement import FormProof, RescaledTopic
from streams_recovery.core.rescale.values import primary_sides
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import same_moment
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.values import UnderLock
from streams_recovery.operations.savepoint.publish import software
from streams_recovery.operations.savepoint.rewrite import check_sound, publish_made

SPEC, RESULT = "rescale-spec", "rescale-result"
_AGAIN = "run the rescale again"


def plan_derivation(
    recovery: RecoveryContext, manifest: Manifest, topics: Sequence[RescaledTopic], *, work: str, prove_only: bool = False
) -> JobPlan:
    """Leave a Spark job its specification among the artifacts of ``work``: to prove where the records of these topics lie, and unless ``prove_only`` to place
    them. Raises ``Refused`` for a savepoint and for topics of which that cannot be done, ``Damaged`` for a savepoint that is not whole.
    """
    whose = manifest.application_id
    check_sound(replace(recovery, layout=Layout(whose), savepoints=recovery.savepoints_of(whose)), manifest)
    planned = _to_place(recovery, manifest, topics)
    spec = RescaleSpec(
        application_id=recovery.application_id,
        topics=planned,
        max_records=recovery.config.backup.segment_max_records,
        prove_only=prove_only,
    )
    # Each new partition is one to write.
    parts = [(part.files.rows, part.files.payload_bytes) for one in planned for part in one.partitions]
    made = [] if prove_only else [(0, 0)] * sum(one.topic.new for one in planned)
    return JobPlan(
        spec=recovery.artifacts.write(work, SPEC, spec),
        result_key=recovery.artifacts.reserve(work, f"{RESULT}-{uuid.uuid4().hex}"),
        ranges=sum(len(one.partitions) for one in planned),
        offsets=sum(one.rows for one in planned),
        # A partitioner of one's own is where Spark's tasks run.
        volume=None if any(one.topic.own for one in planned) else JobVolume.of(parts + made),
    )


def proofs_of(recovery: RecoveryContext, manifest: Manifest, topics: Sequence[RescaledTopic], result: ArtifactRef) -> tuple[FormProof, ...]:
    """The proofs that a job has found, of all topics that it was asked about. Raises ``Damaged`` where one is missing."""
    found = recovery.artifacts.read(RescaleResult, result)
    check_proofs(_to_place(recovery, manifest, topics), found)
    return found.proofs


def publish_derived(
    recovery: RecoveryContext, manifest: Manifest, topics: Sequence[RescaledTopic], result: ArtifactRef, *, run: UnderLock
) -> Manifest:
    """The savepoint with the records placed anew, published under the lock of ``run``, if both sides are proven to hold the same. Repeating it changes nothing,
    and returns what was published. Raises ``Damaged`` where that is not proven.
    """
    name = f"rescale {run.restore_id}"
    earlier = recovery.savepoints.published_by_run(name)
    if earlier is not None:
        return recovery.savepoints.read(earlier)
    planned, found = checked_result(recovery, manifest, topics, result, run=run)
    made = moved(
        manifest,
        [one.topic for one in planned],
        found,
        savepoint_id=same_moment(manifest.savepoint_id, name),
        provenance=Provenance(
            run_id=run.restore_id,
            requested_by=run.requested_by,
            reason=f"records placed anew for {run.restore_id}",
            software=software(),
        ),
    )
    return publish_made(recovery, run, manifest, made, _AGAIN)


def checked_result(
    recovery: RecoveryContext, manifest: Manifest, topics: Sequence[RescaledTopic], result: ArtifactRef, *, run: UnderLock
) -> tuple[tuple[TopicToPlace, ...], RescaleResult]:
    """What was to be placed, and what the job of ``run`` has placed. Raises ``Damaged`` unless both sides are proven to hold the same."""
    planned, found = _to_place(recovery, manifest, topics), recovery.artifacts.read_own(RescaleResult, run.restore_id, result)
    check_result(planned, found)
    return planned, found


def _to_place(recovery: RecoveryContext, manifest: Manifest, topics: Sequence[RescaledTopic]) -> tuple[TopicToPlace, ...]:
    """These topics, and those that stay where they are and name partitions of one of them: subscriptions of a foreign-key join."""
    sides = primary_sides({topic.name: len(topic.partitions) for topic in manifest.topics}, topics)
    named, there = {one.name for one in topics}, {topic.name: topic for topic in manifest.topics}
    also = [
        RescaledTopic(name=name, old=len(there[name].partitions), new=len(there[name].partitions))
        for name, side in sides.items()
        if side.old != side.new and name not in named
    ]
    wanted = (*topics, *also)
    at_end = recovery.config.application.auto_offset_reset == "latest"
    check_base(manifest, wanted, at_end=at_end)
    return tuple(
        TopicToPlace(
            topic=one,
            kind=_kind(recovery, manifest.application_id, there[one.name]),
            partitions=tuple(
                PartitionToPlace(
                    partition=image.partition,
                    files=SegmentFiles.of(image.files()),
                    unread_from=_unread_from(there[one.name].role, image, at_end=at_end),
                )
                for image in there[one.name].partitions
            ),
            primary=sides.get(one.name),
        )
        for one in wanted
    )


def _unread_from(role: TopicRole, image: PartitionImage, *, at_end: bool) -> int:
    return 0 if role is TopicRole.CHANGELOG else unread_from(image, at_end=at_end and role is TopicRole.INPUT)


def _kind(recovery: RecoveryContext, application_id: str, topic: TopicImage) -> StoreKind | None:
    if topic.role is not TopicRole.CHANGELOG:
        return None
    store = store_name(topic.name, application_id)
    known = store_kind(topic.name, application_id, topic.config, recovery.config.store_kind(store))
    return known if known is not StoreKind.UNKNOWN else topic.store or StoreKind.UNKNOWN
