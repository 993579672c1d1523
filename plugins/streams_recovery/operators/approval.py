"""The task that waits for a person."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from streams_recovery.operators.restore import planned

READING = timedelta(hours=24)


class ApprovePlanOperator(ApprovalOperator):
    """Waits up to a day for a person who has read what the task *plan* beside this one has returned as ``text``.

    A rejection, and no answer, fail the run at once. When Airflow itself fails the task, because
    an answer came sooner than it could take it, the task asks again.
    """

    def __init__(self, *, task_id: str = "approve", **kwargs: Any) -> None:
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
        self.body = planned("text", self.task_id)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Go on, or fail for good."""
        try:
            return super().execute_complete(context, event)
        except HITLRejectException as rejected:
            raise AirflowFailException("The plan was rejected, or the time for an approval is over. Nothing was changed") from rejected
