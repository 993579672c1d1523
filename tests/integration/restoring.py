"""Steps of a restore that its tests take before the one they are about."""

from __future__ import annotations

import uuid

from spark_jobs.access import Access
from spark_jobs.transforms.comparing import compare_rows
from spark_jobs.transforms.loading import Share, load_share
from spark_jobs.transforms.reading_back import ReadShare, read_share, whole
from streams_recovery import restores
from streams_recovery.core import codec
from streams_recovery.core.jobs import KeysVerified, RestoreResult, RestoreSpec, VerifyResult, VerifySpec
from streams_recovery.core.model import TopicPartition
from streams_recovery.restores import RestoreRequest, RestoreTicket, SafetySummary
from streams_recovery.savepoints import JobPlan
from streams_recovery.workbench import Workbench
from tests.integration.small import Small, copied


def opened(bench: Workbench, request: RestoreRequest) -> RestoreTicket:
    """A restore whose plan was approved, with the application down."""
    planned = restores.plan(bench, request)
    ticket = restores.open_restore(bench, request, run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)
    restores.stop(bench, ticket)
    return ticket


def saved(bench: Workbench, ticket: RestoreTicket) -> SafetySummary:
    """With a safety savepoint taken."""
    begun = restores.save_state(bench, ticket)
    copied(bench, begun.job)
    return restores.keep_state(bench, ticket, begun)


def loaded(bench: Workbench, ticket: RestoreTicket) -> int:
    """With its topics made and loaded, here as the tasks of the job would. Returns the rows."""
    restores.prepare(bench, ticket)
    return written(bench, ticket)


def written(bench: Workbench, ticket: RestoreTicket) -> int:
    """One attempt to load topics that are made. Returns the rows."""
    job = restores.plan_load(bench, ticket)
    load(bench, job)
    return restores.check_load(bench, ticket, job.result_key).rows


def load(bench: Workbench, job: JobPlan) -> None:
    """What the job of a load does, here."""
    assert job.spec_key is not None
    assert job.result_key is not None
    access = Access(connection=bench.connection, location=bench.repository.location, credentials=bench.credentials)
    spec = bench.notes.read_key(RestoreSpec, job.spec_key)
    done = load_share(Share(partitions=spec.partitions, throttle=None, stall_seconds=spec.stall_seconds), access)
    logs = tuple(TopicPartition(wanted.topic, wanted.partition) for wanted in whole(spec.partitions)) if spec.read_back else ()
    read = read_share(ReadShare(partitions=logs), access).partitions
    bench.repository.create(job.result_key, codec.dumps(RestoreResult(partitions=done.partitions, seconds=0, read=read)))


def verified(bench: Workbench, ticket: RestoreTicket) -> restores.VerifySummary:
    """With a proof for all of it; nothing is compared that the load has proven."""
    job = restores.plan_verify(bench, ticket)
    compare(bench, job)
    return restores.check_verify(bench, ticket, job.result_key)


def compare(bench: Workbench, job: JobPlan) -> None:
    """What the job of a comparison does, here, if there is one. It needs Spark for keys: so many are said."""
    if job.spec_key is None or job.result_key is None:
        return
    spec = bench.notes.read_key(VerifySpec, job.spec_key)
    access = Access(connection=bench.connection, location=bench.repository.location, credentials=bench.credentials)
    partitions = tuple(compare_rows(wanted, access, access.connection) for wanted in spec.partitions)
    keys = tuple(
        KeysVerified(topic=wanted.topic, partition=wanted.partition, keys_compared=4, keys_different=0, examples=())
        for wanted in spec.partitions
        if wanted.topic in spec.keyed
    )
    bench.repository.create(job.result_key, codec.dumps(VerifyResult(partitions=partitions, keys=keys, seconds=0)))


def end(small: Small) -> int:
    """Where the changelog ends."""
    return small.bench.cluster.high_watermarks([small.changelog])[small.changelog]
