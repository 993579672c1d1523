"""What all step operators share: the configured application, the open workbench, and one place where our errors become Airflow's."""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from airflow.sdk import BaseOperator, Context

from streams_recovery.core import codec
from streams_recovery.hooks.context import airflow_errors, context_of
from streams_recovery.operations.context import RecoveryContext

T = TypeVar("T")
# What a task that did not succeed, or had nothing to say, has returned, as JSON.
NOTHING = "null"
_LOGGED_CHARACTERS = 2_000


class StepOperator(BaseOperator):
    """One step of a savepoint or a restore: arguments, one call on an open workbench, its result as JSON in XCom.

    Subclasses say what the one call is in ``step``. Results of earlier steps arrive as JSON texts (see ``result_of``), so that they can be
    template fields and an operator can be tried without a database. It does not retry by itself: Airflow does, by the task's ``retries``.
    """

    template_fields: Sequence[str] = ("application_name",)

    def __init__(self, *, application_name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.application_name = application_name

    def execute(self, context: Context) -> Any:
        """Open the workbench, take the step, return what it reports as plain JSON."""
        started = time.monotonic()
        with airflow_errors(), context_of(self.application_name) as recovery:
            result = codec.encode(self.step(recovery, context))
        self.log.info("%s took %.1f s: %s", self.task_id, time.monotonic() - started, json.dumps(result)[:_LOGGED_CHARACTERS])
        return result

    @abstractmethod
    def step(self, recovery: RecoveryContext, context: Context) -> Any:
        """The one call. Returns a dataclass or plain JSON."""


def result_of(task_id: str) -> str:
    """Template of what a task returned, as JSON text: it needs no dependency arrow and survives any rendering unchanged."""
    return f"{{{{ ti.xcom_pull(task_ids='{task_id}') | tojson }}}}"


def received(kind: type[T], text: str, what: str) -> T:
    """The ``kind`` that an earlier task's result describes. Raises ``Damaged``, for example when that task left no result."""
    return codec.loads(kind, text.encode(), where=f"the result of {what}")
