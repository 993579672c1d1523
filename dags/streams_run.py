"""Runs an application that is down between runs: to the ends that its inputs had at the start, or for a given time. Then it is stopped.

Use it for input that comes rarely, and for work that is due at certain hours. The application id stays the same, so every run continues
where the last one ended. With no unread input nothing is started. If the application is already running and no earlier run has started
it, the run fails and leaves it alone. What a run that died has started is taken over, and stopped at the end.
"""

from __future__ import annotations

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.panels import Panel
from streams_recovery.operators.base import result_of
from streams_recovery.operators.dags import by_id, on_schedule, requested, scheduled
from streams_recovery.operators.form import Scope, restorable, scopes, utc
from streams_recovery.operators.maintenance import StartRunOperator, StopRunOperator
from streams_recovery.sensors.application import EndsReachedSensor

PARAMS = {
    "until": Param(
        "",
        type="string",
        pattern=r"^(|ends|duration:P[0-9DTHMS]{1,40})$",
        title="Until",
        description="ends: where the inputs end at the start. duration:PT30M: so long. Empty: as configured.",
    ),
    "reason": Param("", type="string", maxLength=500, title="Reason"),
}


def run(name: str) -> None:
    """The tasks."""
    start = StartRunOperator(application_name=name, until="{{ params.until }}").as_setup()
    await_ends = EndsReachedSensor(
        task_id="await_ends", application_name=name, captured=result_of("start_application"), execution_timeout=None
    )
    # Whatever becomes of the waiting, the application goes down again; and a stop that fails is no success. *ends_reached* fails the run when the
    # waiting did, which a stop that succeeds would hide.
    stop = StopRunOperator(application_name=name).as_teardown(setups=start, on_failure_fail_dagrun=True)
    start >> await_ends >> [EmptyOperator(task_id="ends_reached"), stop]


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with requested(
        "streams_run", scope, params=PARAMS, doc=__doc__, description="Run an application that is down", panel=Panel.EVERY_DAY
    ) as dag:
        run(scope.application)
    return dag


def streams_run(name: str, config: ApplicationConfig, schedule: str) -> DAG:
    """The DAG of an application that runs on a schedule."""
    with scheduled(
        "streams_run",
        name,
        config,
        doc=__doc__,
        schedule=utc(schedule),
        params=PARAMS,
        description=f"A run of {config.application.id}, which is down in between",
        panel=Panel.EVERY_DAY,
    ) as dag:
        run(name)
    return dag


SCHEDULED = on_schedule("streams_run", lambda config: config.run.schedule)
globals().update(by_id(dag_of(scope) for scope in scopes(restorable())))
globals().update(by_id(streams_run(name, *found) for name, found in SCHEDULED.items()))
