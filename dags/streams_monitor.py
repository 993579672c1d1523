"""Looks at each application every five minutes, stores what it sees as its status, and tells of what is wrong.

*choose_applications* returns those that are due. *observe* looks at each of them: repository, cluster, disks, instances, and once a day its other sites. It
reads only, and takes no lock, but to stop what is left at a site that was left without a proof and answers again. What it finds fails no task: people hear of
it through the notifiers of the configuration, once when it is found and once when it is over. A task fails when its look could not be stored.
*check_configurations* tells of configurations that cannot be used. See docs/monitoring.md.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, MultipleCronTriggerTimetable

from streams_recovery.config.loader import Configurations, configurations
from streams_recovery.core.panels import GROUPS, is_shared_dag_drawn
from streams_recovery.operators.dags import by_id, drawn_for_a_task
from streams_recovery.operators.monitor import (
    CheckConfigurationsOperator,
    ChooseApplicationsOperator,
    ObserveApplicationOperator,
    schedules,
)
from streams_recovery.operators.outcome import problems_text

# Each of the tasks would read all configurations.
FOUND = Configurations(applications={}, broken={}) if drawn_for_a_task() else configurations()
APPLICATIONS = FOUND.applications
SCHEDULES = schedules(APPLICATIONS)
PROBLEMS = problems_text(APPLICATIONS)


def streams_monitor() -> DAG:
    """The DAG that looks at all applications."""
    with DAG(
        "streams_monitor",
        schedule=MultipleCronTriggerTimetable(*SCHEDULES, timezone="UTC") if SCHEDULES else None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        # A monitor that waits for somebody to switch it on sees nothing.
        is_paused_upon_creation=False,
        doc_md=__doc__ + PROBLEMS,
        description="Status, alerts and metrics of all applications",
        tags=["streams-recovery", GROUPS["streams_monitor"]],
        default_args={"retries": 0, "execution_timeout": timedelta(minutes=10)},
    ) as dag:
        CheckConfigurationsOperator(task_id="check_configurations")
        ObserveApplicationOperator.partial(task_id="observe", map_index_template="{{ task.application_name }}").expand(
            application_name=ChooseApplicationsOperator(task_id="choose_applications").output
        )
    return dag


# What a file that cannot be used leaves out is not known, and this DAG tells of it.
if FOUND.broken or is_shared_dag_drawn("streams_monitor", [config.dags.without for config in APPLICATIONS.values()]):
    globals().update(by_id([streams_monitor()]))
