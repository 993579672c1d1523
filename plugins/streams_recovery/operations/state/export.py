"""A store's table written by Spark, as Parquet: for stores that no single process should hold."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from streams_recovery.core.errors import Damaged
from streams_recovery.core.ids import run_suffix
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.state.export_job import PartitionToShow, StateResult, StateSpec
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.state.read import changelog_of, chosen, open_side

SPEC, RESULT = "state-spec", "state-result"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The table of a store in a savepoint, with its deleted keys if wanted, to ``directory`` or, when that is None, into the repository."""

    store: str
    savepoint: str
    run_id: str
    deleted: bool
    directory: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTicket:
    """An export under way, and the job for it."""

    savepoint_id: str
    job: JobPlan


def begin_export(recovery: RecoveryContext, request: ExportRequest) -> ExportTicket:
    """Leave a Spark job its specification. Raises what ``open_side`` raises."""
    manifest = chosen(recovery, request.savepoint)
    side, topic = open_side(recovery, request.store, manifest.savepoint_id), changelog_of(manifest, request.store)
    run = run_suffix(request.run_id)
    spec = StateSpec(
        application_id=manifest.application_id,
        savepoint_id=manifest.savepoint_id,
        store=request.store,
        form=side.form,
        partitions=tuple(PartitionToShow(partition=image.partition, files=tuple(image.files())) for image in topic.partitions),
        deleted=request.deleted,
        directory=request.directory,
        run=run,
    )
    work = f"{manifest.savepoint_id}-{run}"
    job = JobPlan(
        spec=recovery.artifacts.write(work, SPEC, spec),
        result_key=recovery.artifacts.reserve(work, f"{RESULT}-{uuid.uuid4().hex}"),
        ranges=len(spec.partitions),
        offsets=sum(i.end for i in topic.partitions),
    )
    return ExportTicket(savepoint_id=manifest.savepoint_id, job=job)


def conclude_export(recovery: RecoveryContext, written: ArtifactRef) -> StateResult:
    """What the job wrote. Raises ``Damaged`` when a file of it is not there."""
    result = recovery.artifacts.read(StateResult, written)
    missing = [part.key for part in result.parts if recovery.repository.size(part.key) is None]
    if missing:
        raise Damaged(f"{missing[0]} is missing", next_step="write the table again", key=missing[0])
    return result
