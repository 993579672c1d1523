"""What was answered to the question of a run, as tasks behind it look at it. A task whose state was set by hand has answered nothing."""

from __future__ import annotations

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from streams_recovery.config.directory import load_application
from streams_recovery.core.approvers import refusal


def require_answer(operator: BaseOperator, application_name: str, context: Context) -> None:
    """Where the DAG has a task *approve* beside ``operator`` and the application says who may approve: fail unless one of these has."""
    group = f"{operator.task_id.rpartition('.')[0]}." if "." in operator.task_id else ""
    if f"{group}approve" not in operator.dag.task_ids:
        return
    rule = load_application(application_name).access.approval
    if not rule.restricts:
        return
    answer = context["ti"].xcom_pull(task_ids=f"{group}approve") or {}
    user, trigger = answer.get("responded_by_user") or {}, context["dag_run"].triggering_user_name
    if why := refusal(rule, triggered_by=trigger, approved_by=user.get("name")):
        raise AirflowFailException(f"This plan is not approved: {why}")
