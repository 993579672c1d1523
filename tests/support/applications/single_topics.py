"""Single topics brought back to the small application, step by step, with the job's work done here."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from spark_jobs.transforms.segment_reader import chosen_batches
from streams_recovery.application.factory import open_application
from streams_recovery.core.jobs.spec import JobPlan, RestoreSpec
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.restore_steps import checked, load, verified
from tests.support.applications.small import RUNNING, Small, configured, says

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]


def topics(app: Small, *names: str, **wanted: Any) -> restore.RestoreTopics:
    return restore.RestoreTopics(topics=names or (app.input.topic,), reason="test", **wanted)


def rows(recovery: RecoveryContext, tp: TopicPartition) -> list[dict[str, object]]:
    """Every record of a log, its offset left out."""
    start, end = recovery.cluster.log_starts([tp])[tp], recovery.cluster.high_watermarks([tp])[tp]
    with RangeReader(recovery.connection, tp, start, end) as reader:
        return [{name: value for name, value in row.items() if name != "offset"} for batch in reader for row in batch.to_pylist()]


def opened(recovery: RecoveryContext, request: restore.RestoreTopics) -> restore.RestoreTicket:
    planned = restore.plan(recovery, request)
    return restore.open_restore(recovery, request, run_id="run" + planned.hash[:8], requested_by="test", approved_hash=planned.hash)


def ended(recovery: RecoveryContext, ticket: restore.RestoreTicket) -> restore.RestoreReport:
    """The steps behind the load."""
    proven = verified(recovery, ticket)
    restore.set_offsets(recovery, ticket)
    restore.wipe_noted(recovery, ticket)
    return restore.finish_topics(recovery, ticket, proven)


def brought_back(recovery: RecoveryContext, request: restore.RestoreTopics) -> restore.RestoreReport:
    """All steps, the job's work done here."""
    ticket = opened(recovery, request)
    restore.prepare_topics(recovery, ticket)
    checked(recovery, ticket, load(recovery, restore.plan_load(recovery, ticket)))
    return ended(recovery, ticket)


def running(recovery: RecoveryContext) -> RecoveryContext:
    """The same application with an instance that runs."""
    command = json.loads(recovery.config.model_dump_json())["runs"]["command"]
    config = configured(recovery, runs={"command": {**command, "status": says(RUNNING)}})
    return replace(recovery, config=config, application=open_application(config.runs, recovery.application_id))


def archived(recovery: RecoveryContext, job: JobPlan) -> list[Row]:
    """What the job is to write."""
    assert job.spec is not None
    [part] = recovery.artifacts.read(RestoreSpec, job.spec).partitions
    found = []
    for batch in chosen_batches(recovery.repository, part.files, part.cut):
        for row in batch.to_pylist():
            headers = [(one["key"], one["value"]) for one in row["headers"]] if row["headers"] else None
            found.append((row["timestamp"], row["key"], row["value"], headers))
    return found


def committed(app: Small) -> CommittedOffset | None:
    return app.recovery.groups.committed(app.recovery.application_id, [app.input])[app.input]
