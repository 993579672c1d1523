"""The task that waits for a person."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput, TaskDeferred

from streams_recovery.config.backup import Access
from streams_recovery.config.loader import load_application
from streams_recovery.core.approval import candidates, refusal, shown, unanswerable
from streams_recovery.core.version import VERSION
from streams_recovery.hooks.context import Logged
from streams_recovery.operators.base import was_cleared
from streams_recovery.operators.form import answers_by_name, unenforceable
from streams_recovery.operators.restore import planned

READING = timedelta(hours=24)


class ApprovePlanOperator(Logged, ApprovalOperator):
    """Waits up to a day for a person who has read what the task *plan* beside this one has returned as ``text``.

    A rejection, and no answer, fail the run at once. After an approval by a person whom ``access`` of the application does not allow it, the task asks again,
    for another day. If the person who triggered a run must not approve it, a cleared run fails without a question. The answer names the plan that was shown,
    and the version of this software: the first task that acts compares both with its own. When Airflow itself fails the task, because an answer came sooner
    than it could take it, the task asks again.
    """

    template_fields: Collection[str] = (*ApprovalOperator.template_fields, "application_name")

    def __init__(self, *, application_name: str, task_id: str = "approve", **kwargs: Any) -> None:
        super().__init__(
            task_id=task_id,
            body="",
            defaults="Reject",
            fail_on_reject=True,
            response_timeout=READING,
            execution_timeout=None,
            retries=3,
            retry_delay=timedelta(seconds=1),
            **kwargs,
        )
        self.application_name = application_name
        self.body = planned("text", self.task_id)

    def execute(self, context: Context) -> Any:
        """Ask, those who may approve where Airflow can be told who they are."""
        access, trigger = self._access(), context["dag_run"].triggering_user_name
        self._require_answerable(access, context)
        if answers_by_name():
            self.assigned_users = [{"id": name, "name": name} for name in candidates(access.approval, trigger)] or None
        # Templates are rendered again when the task goes on. The plan was shown with these values.
        return self._asked(context, shown(self.body or "", VERSION))

    def _require_answerable(self, access: Access, context: Context) -> None:
        trigger = context["dag_run"].triggering_user_name
        if why := unanswerable(access.approval, trigger, cleared=was_cleared(self, context)):
            raise AirflowFailException(f"No approval could count: {why}. Nothing was changed")

    def _asked(self, context: Context, approved: dict[str, str]) -> Any:
        try:
            return super().execute(context)
        except (TaskAwaitingInput, TaskDeferred) as waiting:
            waiting.kwargs = {**(waiting.kwargs or {}), "approved": approved}
            raise

    def execute_complete(self, context: Context, event: dict[str, Any], approved: dict[str, str] | None = None) -> Any:
        """Go on, fail for good, or ask again where the approval does not count. ``approved`` is what was shown: Airflow keeps the text of a question."""
        try:
            answer = super().execute_complete(context, event)
        except HITLRejectException as rejected:
            raise AirflowFailException("The plan was rejected, or the time for an approval is over. Nothing was changed") from rejected
        # Airflow knows some users by an id that no configuration has, so who answered is looked at here whatever it did.
        user = event["responded_by_user"] or {}
        access, trigger = self._access(), context["dag_run"].triggering_user_name
        # Cleared while it waited: to ask again would not help.
        self._require_answerable(access, context)
        if why := refusal(access.approval, triggered_by=trigger, approved_by=user.get("name"), cleared=False):
            self.log.warning("This approval does not count: %s. Nothing was changed, and the question is put again", why)
            return self._asked(context, approved or {})
        return {**answer, "approved": approved or {}}

    def _access(self) -> Access:
        access = load_application(self.application_name).access
        if error := unenforceable(access):
            raise AirflowFailException(f"{error}. Nothing was changed")
        return access
