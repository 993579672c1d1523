"""Steps of a restore that its tests take before the one they are about."""

from __future__ import annotations

import uuid

from spark_jobs.access import Access
from spark_jobs.transforms.compare import compare_rows
from spark_jobs.transforms.load import Share, load_share
from spark_jobs.transforms.read_back import ReadShare, read_share, whole
from streams_recovery.core.jobs import KeysVerified, RestoreResult, RestoreSpec, VerifyResult, VerifySpec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.run_artifact import NoteRef
from streams_recovery.operations import restore
from streams_recovery.operations.context import Workbench
from streams_recovery.operations.restore import LoadSummary, RestoreRequest, RestoreTicket, SafetySummary
from streams_recovery.operations.savepoint import JobPlan
from tests.integration.small import Small, copied, left


def opened(bench: Workbench, request: RestoreRequest) -> RestoreTicket:
    """A restore whose plan was approved, with the application down."""
    planned = restore.plan(bench, request)
    ticket = restore.open_restore(bench, request, run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)
    restore.stop(bench, ticket)
    return ticket


def saved(bench: Workbench, ticket: RestoreTicket) -> SafetySummary:
    """With a safety savepoint taken."""
    begun = restore.save_state(bench, ticket)
    return restore.keep_state(bench, ticket, begun, copied(bench, begun.job))


def loaded(bench: Workbench, ticket: RestoreTicket) -> int:
    """With its topics made and loaded, here as the tasks of the job would. Returns the rows."""
    restore.prepare(bench, ticket)
    return written(bench, ticket)


def written(bench: Workbench, ticket: RestoreTicket) -> int:
    """One attempt to load topics that are made. Returns the rows."""
    return checked(bench, ticket, load(bench, restore.plan_load(bench, ticket))).rows


# What a run hands on from its load to its verification, by restore.
_LOADS: dict[str, NoteRef | None] = {}


def checked(bench: Workbench, ticket: RestoreTicket, result: NoteRef) -> LoadSummary:
    """A load that was checked."""
    summary = restore.check_load(bench, ticket, result)
    _LOADS[ticket.restore_id] = summary.result
    return summary


def load_of(ticket: RestoreTicket) -> NoteRef | None:
    """The result of the last load of a restore, None when it was not checked here."""
    return _LOADS.get(ticket.restore_id)


def load(bench: Workbench, job: JobPlan) -> NoteRef:
    """What the job of a load does, here."""
    assert job.spec is not None
    assert job.result_key is not None
    access = Access(connection=bench.connection, location=bench.repository.location, credentials=bench.credentials)
    spec = bench.notes.read(RestoreSpec, job.spec)
    done = load_share(Share(partitions=spec.partitions, throttle=None, stall_seconds=spec.stall_seconds), access)
    logs = tuple(TopicPartition(wanted.topic, wanted.partition) for wanted in whole(spec.partitions)) if spec.read_back else ()
    read = read_share(ReadShare(partitions=logs), access).partitions
    return left(bench, job.result_key, RestoreResult(partitions=done.partitions, seconds=0, read=read))


def verified(bench: Workbench, ticket: RestoreTicket) -> restore.VerifySummary:
    """With a proof for all of it; nothing is compared that the load has proven."""
    compared = compare(bench, restore.plan_verify(bench, ticket, load_of(ticket)))
    return restore.check_verify(bench, ticket, load_of(ticket), compared)


def compare(bench: Workbench, job: JobPlan) -> NoteRef | None:
    """What the job of a comparison does, here, if there is one. It needs Spark for keys: so many are said."""
    if job.spec is None or job.result_key is None:
        return None
    spec = bench.notes.read(VerifySpec, job.spec)
    access = Access(connection=bench.connection, location=bench.repository.location, credentials=bench.credentials)
    partitions = tuple(compare_rows(wanted, access, access.connection) for wanted in spec.partitions)
    keys = tuple(
        KeysVerified(topic=wanted.topic, partition=wanted.partition, keys_compared=4, keys_different=0, examples=())
        for wanted in spec.partitions
        if wanted.topic in spec.keyed
    )
    return left(bench, job.result_key, VerifyResult(partitions=partitions, keys=keys, seconds=0))


def end(small: Small) -> int:
    """Where the changelog ends."""
    return small.bench.cluster.high_watermarks([small.changelog])[small.changelog]
