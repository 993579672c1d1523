"""Removes savepoints that no rule in the application's `retention` section keeps, after it has merged small files of the newest one.

*merge* is what `streams_compact` does with small files. *plan* lists the partitions in which `retention.merge_files` of them lie side by side. *write_files*
writes each group as one file, reads that back and compares every record. *publish* makes a savepoint of the same moment, cut and records. Later savepoints
go on from it, so that a year of them is restored from few files. When nothing is worth it, and with `apply` false, these are skipped. When they fail, the run
fails, and savepoints expire all the same.

*plan* shows every savepoint with the rules that keep it, and those that would be removed. It changes nothing. *expire* carries the plan out, under
the application's lock, as the param `apply` says. With `after_days` the first run announces from which day on runs delete, and no run deletes before
that day. A removed savepoint cannot be restored any more. Its files are deleted after a grace period, unless another savepoint names them.
"""

from __future__ import annotations

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup, TriggerRule

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.operators import form
from streams_recovery.operators.dags import by_id, drawn, scheduled
from streams_recovery.operators.form import utc
from streams_recovery.operators.maintenance import ExpireOperator, PlanExpiryOperator, PlanMergeOperator, PublishCompactedOperator
from streams_recovery.operators.spark import WriteFilesOperator

APPLY = {
    "true": "Yes: remove what the plan shows",
    "false": "No: only show the plan",
    "after_days": "After days: announce it, and remove from the announced day on",
}


def streams_expire(name: str, config: ApplicationConfig) -> DAG:
    """The DAG of one application."""
    with scheduled(
        "streams_expire",
        name,
        config,
        doc=__doc__,
        schedule=utc(config.retention.schedule),
        params={"apply": form.choice(config.retention.apply.value, "Apply", APPLY)},
        access_control=form.rights(config.access, run=False),
        description=f"Retention of the savepoints of {config.application.id}",
    ) as dag:
        apply = "{{ params.apply }}"
        with TaskGroup("merge"):
            publish = PublishCompactedOperator(application_name=name)
            PlanMergeOperator(application_name=name, apply=apply) >> WriteFilesOperator(application_name=name) >> publish
        # *merged* fails the run when the merge did, which an expiry that succeeds would hide.
        publish >> EmptyOperator(task_id="merged")
        plan = PlanExpiryOperator(application_name=name, trigger_rule=TriggerRule.ALL_DONE)
        publish >> plan >> ExpireOperator(application_name=name, apply=apply)
    return dag


globals().update(by_id(streams_expire(name, config) for name, config in drawn("streams_expire").items()))
