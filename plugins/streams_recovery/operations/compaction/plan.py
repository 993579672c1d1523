"""What a reduction would do, and the Spark job for it."""

from __future__ import annotations

import contextlib
import uuid

from streams_recovery.core.compaction.plan import ReduceSpec, ReductionPlan, plan_reduction
from streams_recovery.core.errors import Damaged, NotFound, Refused
from streams_recovery.core.ids import same_moment, time_of
from streams_recovery.core.kafka_types import Profile
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.operations.compaction.values import CompactRequest, CompactTicket
from streams_recovery.operations.context import Workbench
from streams_recovery.operations.savepoint.values import JobPlan

SPEC, RESULT = "reduce-spec", "reduce-result"


def plan(bench: Workbench, savepoint: str) -> ReductionPlan:
    """What of a savepoint would be reduced. Changes nothing, and asks neither cluster nor application.

    Raises ``NotFound`` without a savepoint, ``Damaged`` for one that is not whole or was altered, ``Refused`` for one that was reduced already.
    """
    source = _chosen(bench, savepoint)
    refuse_if_reduced(bench, source)
    _check_published(bench, source.savepoint_id)
    if not source.whole(sizes(bench)):
        raise Damaged(
            f"savepoint {source.savepoint_id} is not whole: files that it names are missing or have another size",
            next_step=f"audit it: streams-recovery verify <name> {source.savepoint_id}",
            savepoint=source.savepoint_id,
        )
    return plan_reduction(source, {name: bench.config.store_kind(name) for name in bench.config.stores})


def begin(bench: Workbench, request: CompactRequest, planned: ReductionPlan) -> CompactTicket:
    """Leave a Spark job its specification if there is something to reduce."""
    savepoint_id = same_moment(planned.savepoint_id, request.run)
    backup = bench.config.backup
    spec = ReduceSpec(
        application_id=bench.application_id,
        partitions=planned.partitions,
        max_records=backup.segment_max_records,
        compression_level=backup.compression_level,
    )
    return CompactTicket(
        request=request,
        savepoint_id=savepoint_id,
        source_id=planned.savepoint_id,
        spec=bench.notes.write(savepoint_id, SPEC, spec) if spec.partitions else None,
        partitions=len(spec.partitions),
        offsets=sum(partition.end - partition.start for partition in spec.partitions),
        stays={topic.topic: "; ".join(topic.stays) for topic in planned.topics if topic.stays},
    )


def plan_job(bench: Workbench, ticket: CompactTicket) -> JobPlan:
    """The job of a reduction. Each attempt has a place of its own for its result: an earlier one may still run somewhere."""
    result_key = None if ticket.spec is None else bench.notes.reserve(ticket.savepoint_id, f"{RESULT}-{uuid.uuid4().hex}")
    return JobPlan(spec=ticket.spec, result_key=result_key, ranges=ticket.partitions, offsets=ticket.offsets)


def _chosen(bench: Workbench, savepoint: str) -> Manifest:
    if savepoint != "latest":
        return bench.savepoints.read(savepoint)
    newest = bench.savepoints.latest(profile=Profile.FULL)
    if newest is None:
        raise NotFound(
            f"{bench.application_id} has no savepoint with state in {bench.repository.location}",
            next_step="take one first, or check the storage section of the configuration",
        )
    return newest


def _check_published(bench: Workbench, savepoint_id: str) -> None:
    # What somebody altered would come out as published by us. Savepoints of older releases have no record to be compared with.
    with contextlib.suppress(NotFound):
        if bench.savepoints.altered(savepoint_id):
            raise Damaged(
                f"the manifest of savepoint {savepoint_id} is not the one that was published",
                next_step="nothing was changed; find out who wrote it, and choose another savepoint",
                savepoint=savepoint_id,
            )


def refuse_if_reduced(bench: Workbench, source: Manifest) -> None:
    """Raise ``Refused`` when a whole savepoint stands for ``source`` already. One that is damaged stands for nothing."""
    there = sizes(bench)
    for savepoint_id in bench.savepoints.ids():
        if time_of(savepoint_id) == time_of(source.savepoint_id) and savepoint_id != source.savepoint_id:
            try:
                other = bench.savepoints.read(savepoint_id)
            except Damaged:
                continue
            if other.replaces == source.savepoint_id and other.whole(there):
                raise Refused(
                    f"savepoint {source.savepoint_id} was reduced already: {savepoint_id}",
                    next_step="use that one",
                    savepoint=savepoint_id,
                )


def sizes(bench: Workbench) -> dict[str, int]:
    """Bytes of every segment there is, by key."""
    return {file.key: file.bytes for file in bench.repository.listed(bench.layout.segments)}
