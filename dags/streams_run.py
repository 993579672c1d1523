"""Runs an application that is down between runs: to the ends that its inputs had at the start, or for a given time. Then it is stopped.

Use it for input that comes rarely, and for work that is due at certain hours. The application id stays the same, so every run continues
where the last one ended. With no unread input nothing is started. If the application is already running and no earlier run has started
it, the run fails and leaves it alone. What a run that died has started is taken over, and stopped at the end.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.operators.base import result_of
from streams_recovery.operators.dags import by_id, drawn, scheduled
from streams_recovery.operators.form import utc
from streams_recovery.operators.maintenance import StartRunOperator, StopRunOperator
from streams_recovery.sensors.application import EndsReachedSensor


def streams_run(name: str, config: ApplicationConfig) -> DAG:
    """The DAG of one application."""
    params = {
        "until": Param(
            "",
            type="string",
            pattern=r"^(|ends|duration:P[0-9DTHMS]{1,40})$",
            title="Until",
            description="ends: where the inputs end at the start. duration:PT30M: so long. Empty: as configured.",
        ),
        "reason": Param("", type="string", maxLength=500, title="Reason"),
    }
    with scheduled(
        "streams_run",
        name,
        config,
        doc=__doc__,
        schedule=utc(config.run.schedule),
        params=params,
        description=f"A run of {config.application.id}, which is down in between",
    ) as dag:
        start = StartRunOperator(application_name=name, until="{{ params.until }}").as_setup()
        await_ends = EndsReachedSensor(
            task_id="await_ends",
            application_name=name,
            captured=result_of("start_application"),
            at_most=timedelta(minutes=config.run.timeout_minutes),
            execution_timeout=None,
        )
        # Whatever becomes of the waiting, the application goes down again; and a stop that fails is no success. *ends_reached* fails the run when the
        # waiting did, which a stop that succeeds would hide.
        stop = StopRunOperator(application_name=name).as_teardown(setups=start, on_failure_fail_dagrun=True)
        start >> await_ends >> [EmptyOperator(task_id="ends_reached"), stop]
    return dag


globals().update(by_id(streams_run(name, config) for name, config in drawn("streams_run").items() if config.runs_at_times))
