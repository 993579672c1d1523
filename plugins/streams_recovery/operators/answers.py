"""What was answered to the question of a run, as tasks behind it look at it. A task whose state was set by hand has answered nothing."""

from __future__ import annotations

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from streams_recovery.config.directory import load_application
from streams_recovery.core.approvers import outdated, refusal
from streams_recovery.core.version import VERSION


def was_cleared(operator: BaseOperator, context: Context) -> bool:
    """Whether somebody has begun this run, or the task that runs now, once more. Airflow counts how often a run was cleared, unless its state was to stay as
    it is; each clear of a task allows it as many tries again as it has.
    """
    return context["dag_run"].clear_number != 0 or context["ti"].max_tries > (operator.retries or 0)


def require_answer(operator: BaseOperator, application_name: str, context: Context) -> None:
    """Where the DAG has a task *approve* beside ``operator``: fail unless what it has answered counts, for the plan that there is now and by the rule of the
    application. Without such a rule a task that was marked as succeeded counts too.
    """
    group = f"{operator.task_id.rpartition('.')[0]}." if "." in operator.task_id else ""
    if f"{group}approve" not in operator.dag.task_ids:
        return
    answer = context["ti"].xcom_pull(task_ids=f"{group}approve") or {}
    rule = load_application(application_name).access.approval
    user, trigger = answer.get("responded_by_user") or {}, context["dag_run"].triggering_user_name
    if why := refusal(rule, triggered_by=trigger, approved_by=user.get("name"), cleared=was_cleared(operator, context)):
        raise AirflowFailException(f"This plan is not approved: {why}")
    if answer:
        planned = context["ti"].xcom_pull(task_ids=f"{group}plan") or {}
        if why := outdated(answer.get("approved") or {}, plan=planned.get("text", ""), software=VERSION):
            raise AirflowFailException(f"This plan is not approved: {why}. Nothing was changed; trigger a new run")
