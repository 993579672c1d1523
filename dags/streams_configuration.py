"""One DAG for each configuration that cannot be used. It replaces the other DAGs of that application and fails every hour until the file is corrected.
Where only the section `access` cannot be enforced, it replaces the DAGs that restore. Applications in other files keep their DAGs.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from streams_recovery.config.loader import id_of
from streams_recovery.operators.form import UnusableConfiguration, unusable_configurations
from streams_recovery.operators.maintenance import CheckConfigurationOperator, explanation


def streams_configuration(name: str, found: UnusableConfiguration) -> DAG:
    """The DAG of one configuration."""
    with DAG(
        f"streams_configuration_{id_of(name)}",
        schedule="0 * * * *",
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        # A failure that waits for somebody to switch it on is not seen.
        is_paused_upon_creation=False,
        # A plain text: the process that parses hands on no other kind of one, and without a word the DAG would not be there.
        doc_md=str(explanation(name, found)),
        description="A configuration that cannot be used",
        tags=["streams-recovery", "configuration", id_of(name)],
        default_args={"retries": 0, "execution_timeout": timedelta(minutes=5)},
    ) as dag:
        CheckConfigurationOperator(task_id="check_configuration", application_name=name)
    return dag


for _name, _found in unusable_configurations().items():
    globals()[f"streams_configuration_{id_of(_name)}"] = streams_configuration(_name, _found)
