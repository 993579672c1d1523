"""Processes past intervals again. Create a backfill: each of its data intervals runs in an application of its own.

The archived input of an interval, by event time, is copied to topics that an application with another id reads. It starts with no state, or with the
state of a savepoint before the interval. Input before the interval is processed first. At the ends of the copies the application stops, its results
are published, and it is removed, whatever failed. Results are published to separate topics, or into the real outputs. The latter needs the
application id as `confirm`; only then is a production topic written. An interval without input starts nothing. A run by the schedule is skipped: the
schedule only defines the intervals. docs/strategies/reprocess.md explains which results to expect. The command line lists past runs.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable, TriggerRule, chain

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox import Reprocess
from streams_recovery.core.sandbox.interval_log import ReprocessOptions
from streams_recovery.operators import form
from streams_recovery.operators.dags import by_id, drawn, scheduled
from streams_recovery.operators.restore import (
    DrainBeforeIntervalOperator,
    DrainOperator,
    StartOnIntervalOperator,
    load_deferred_input,
    replace_state,
    start_again,
)
from streams_recovery.operators.sandbox import (
    ClaimIntervalSensor,
    ClearIntervalOperator,
    ConcludeIntervalOperator,
    FinishIntervalOperator,
    OpenIntervalOperator,
    PlanIntervalOperator,
    PublishResultsOperator,
    RemoveIntervalOperator,
)

PARAMS = form.of(*ReprocessOptions.FORM)


def streams_reprocess(name: str, reprocess: Reprocess, config: ApplicationConfig) -> DAG:
    """The DAG of one application."""
    with scheduled(
        "streams_reprocess",
        name,
        config,
        doc=__doc__,
        schedule=CronDataIntervalTimetable(reprocess.schedule, timezone="UTC"),
        start_date=datetime(2000, 1, 1, tzinfo=UTC),
        max_active_runs=reprocess.parallel,
        params=PARAMS,
        description=f"Intervals of the past of {config.application.id}, processed again",
    ) as dag:
        scratch = "{{ ti.xcom_pull(task_ids='claim')['application'] }}"
        open_restore = OpenIntervalOperator(application_name=scratch, source_id=config.application.id).as_setup()
        chain(
            ClaimIntervalSensor(application_name=name, mode="reschedule", poke_interval=15, timeout=timedelta(days=7).total_seconds()),
            ClearIntervalOperator(application_name=scratch, source_id=config.application.id),
            PlanIntervalOperator(application_name=scratch, source_id=config.application.id),
            open_restore,
            *replace_state(scratch),
            *start_again(scratch),
            DrainBeforeIntervalOperator(application_name=scratch),
            load_deferred_input(scratch),
            StartOnIntervalOperator(application_name=scratch),
            DrainOperator(application_name=scratch),
            PublishResultsOperator(application_name=scratch),
            FinishIntervalOperator(application_name=scratch),
            RemoveIntervalOperator(application_name=scratch).as_teardown(setups=open_restore),
            ConcludeIntervalOperator(application_name=name, trigger_rule=TriggerRule.ALL_DONE),
        )
    return dag


globals().update(
    by_id(
        streams_reprocess(name, config.reprocess, config)
        for name, config in drawn("streams_reprocess").items()
        if config.reprocess is not None and config.reprocess.enabled
    )
)
