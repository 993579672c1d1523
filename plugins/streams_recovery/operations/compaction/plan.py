"""What a compaction would do, and the Spark job for it."""

from __future__ import annotations

import contextlib
import uuid

from streams_recovery.core.compaction.plan import CompactionPlan, CompactSpec, plan_compaction
from streams_recovery.core.errors import Damaged, NotFound, Refused
from streams_recovery.core.ids import LATEST, same_moment, time_of
from streams_recovery.core.kafka_types import Profile
from streams_recovery.core.next_command import command
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.operations.compaction.values import CompactRequest, CompactTicket
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint.values import JobPlan

SPEC, RESULT = "compact-spec", "compact-result"


def plan(recovery: RecoveryContext, savepoint: str) -> CompactionPlan:
    """What of a savepoint would be compacted. Changes nothing, and asks neither cluster nor application.

    Raises ``NotFound`` without a savepoint, ``Damaged`` for one that is not whole or was altered, ``Refused`` for one that was compacted already.
    """
    source = _chosen(recovery, savepoint)
    refuse_if_compacted(recovery, source)
    _check_published(recovery, source.savepoint_id)
    if not source.whole(sizes(recovery)):
        raise Damaged(
            f"savepoint {source.savepoint_id} is not whole: files that it names are missing or have another size",
            next_step="verify it",
            savepoint=source.savepoint_id,
        ).then(command("verify", recovery.config.name, source.savepoint_id))
    return plan_compaction(source, {name: recovery.config.store_kind(name) for name in recovery.config.stores})


def begin(recovery: RecoveryContext, request: CompactRequest, planned: CompactionPlan) -> CompactTicket:
    """Leave a Spark job its specification if there is something to compact."""
    savepoint_id = same_moment(planned.savepoint_id, request.run)
    backup = recovery.config.backup
    spec = CompactSpec(
        application_id=recovery.application_id,
        partitions=planned.partitions,
        max_records=backup.segment_max_records,
        compression_level=backup.compression_level,
    )
    return CompactTicket(
        request=request,
        savepoint_id=savepoint_id,
        source_id=planned.savepoint_id,
        spec=recovery.artifacts.write(savepoint_id, SPEC, spec) if spec.partitions else None,
        partitions=len(spec.partitions),
        offsets=sum(partition.end - partition.start for partition in spec.partitions),
        stays={topic.topic: "; ".join(topic.stays) for topic in planned.topics if topic.stays},
    )


def plan_job(recovery: RecoveryContext, ticket: CompactTicket) -> JobPlan:
    """The job of a compaction. Each attempt has a place of its own for its result: an earlier one may still run somewhere."""
    result_key = None if ticket.spec is None else recovery.artifacts.reserve(ticket.savepoint_id, f"{RESULT}-{uuid.uuid4().hex}")
    return JobPlan(spec=ticket.spec, result_key=result_key, ranges=ticket.partitions, offsets=ticket.offsets)


def _chosen(recovery: RecoveryContext, savepoint: str) -> Manifest:
    if savepoint != LATEST:
        return recovery.savepoints.read(savepoint)
    newest = recovery.savepoints.latest(profile=Profile.FULL)
    if newest is None:
        raise NotFound(
            f"{recovery.application_id} has no savepoint with state in {recovery.repository.location}",
            next_step="take one first, or check the storage section of the configuration",
        )
    return newest


def _check_published(recovery: RecoveryContext, savepoint_id: str) -> None:
    # What somebody altered would come out as published by us. Savepoints of older releases have no record to be compared with.
    with contextlib.suppress(NotFound):
        if recovery.savepoints.altered(savepoint_id):
            raise Damaged(
                f"the manifest of savepoint {savepoint_id} is not the one that was published",
                next_step="nothing was changed; find out who wrote it, and choose another savepoint",
                savepoint=savepoint_id,
            )


def refuse_if_compacted(recovery: RecoveryContext, source: Manifest) -> None:
    """Raise ``Refused`` when a whole savepoint stands for ``source`` already. One that is damaged stands for nothing."""
    there = sizes(recovery)
    for savepoint_id in recovery.savepoints.ids():
        if time_of(savepoint_id) == time_of(source.savepoint_id) and savepoint_id != source.savepoint_id:
            try:
                other = recovery.savepoints.read(savepoint_id)
            except Damaged:
                continue
            if other.replaces == source.savepoint_id and other.whole(there):
                raise Refused(
                    f"savepoint {source.savepoint_id} was compacted already: {savepoint_id}",
                    next_step="use that one",
                    savepoint=savepoint_id,
                )


def sizes(recovery: RecoveryContext) -> dict[str, int]:
    """Bytes of every segment there is, by key."""
    return recovery.repository.sizes(recovery.layout.segments)
