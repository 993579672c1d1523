"""Expires savepoints that no rule of the application's `retention` keeps.

*plan* shows every savepoint with the rules that keep it, and what would go; it changes nothing. *expire* carries it out only when the param
`apply` is set, under the application's lock: a savepoint that expires stops existing at once, its files go when a grace period is over, and
never one that another savepoint names.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param

from streams_recovery.config.directory import load_applications
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.operators.maintenance import ExpireOperator, PlanExpiryOperator


def streams_expire(name: str, config: ApplicationConfig) -> DAG:
    """The DAG of one application."""
    with DAG(
        f"streams_expire_{name}",
        schedule=config.retention.schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params={"apply": Param(config.retention.apply, type="boolean", title="Apply", description="Without it the plan is only shown.")},
        doc_md=__doc__,
        description=f"Retention of the savepoints of {config.application.id}",
        tags=["streams-recovery", "expire", name],
    ) as dag:
        PlanExpiryOperator(application_name=name) >> ExpireOperator(application_name=name, apply="{{ params.apply }}")
    return dag


for _name, _config in load_applications().items():
    globals()[f"streams_expire_{_name}"] = streams_expire(_name, _config)
