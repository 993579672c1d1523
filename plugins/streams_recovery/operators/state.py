"""The tasks that look into savepoints for a person: they compare two, or look something up. Values stay out of XCom: the log and the page have the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from streams_recovery.core.state.inspection import CompareRequest, Inspection, LookUpRequest, inspection_lines, store_names
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operators.base import StepOperator, declared_params
from streams_recovery.operators.restore import PARAMS
from streams_recovery.operators.run_facts import requested_by, run_id_of
from streams_recovery.workflows import maintenance as steps


class InspectionOperator(StepOperator):
    """What both have in common: ``params_json`` renders to the run's params."""

    template_fields: Sequence[str] = (*StepOperator.template_fields, "params_json")

    def __init__(self, *, params_json: str = PARAMS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.params_json = params_json

    def logged(self, found: Inspection) -> dict[str, str]:
        """Log all of it, and return what everybody may know."""
        for line in inspection_lines(found):
            self.log.info("%s", line)
        return {"savepoint_id": found.savepoint_id, "other": found.other, "outcome": found.outcome.value}


class CompareSavepointsOperator(InspectionOperator):
    """Compare the stores of a savepoint with those of another one, or with the running application's. Reads only."""

    takes = steps.COMPARE

    def step(self, recovery: RecoveryContext, context: Context) -> dict[str, str]:
        asked = declared_params(self, self.params_json)
        request = CompareRequest(
            savepoint=asked["savepoint"],
            other=asked["other"],
            stores=store_names(asked.get("stores") or ""),
            run_id=run_id_of(context),
            requested_by=requested_by(context),
        )
        return self.logged(self.called(recovery, request))


class LookUpOperator(InspectionOperator):
    """Look up a key of a store, or the newest records of a topic, in a savepoint. Reads only."""

    takes = steps.LOOK_UP

    def step(self, recovery: RecoveryContext, context: Context) -> dict[str, str]:
        asked = declared_params(self, self.params_json)
        request = LookUpRequest(
            savepoint=asked["savepoint"],
            store=asked.get("store") or "",
            key=asked.get("key"),
            topic=asked.get("topic") or "",
            run_id=run_id_of(context),
            requested_by=requested_by(context),
        )
        return self.logged(self.called(recovery, request))
