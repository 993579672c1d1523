"""The tasks that look into savepoints for a person: they compare two, or look something up. Values stay out of XCom: the log and the page have the result.

The last task of a run: an asset event with the facts of what was made, and the lineage. It comes last, so that a mistake in assets harms nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context

from streams_recovery.core import codec
from streams_recovery.core.state.inspection import CompareRequest, Inspection, LookUpRequest, inspection_lines, store_names
from streams_recovery.hooks.context import Logged
from streams_recovery.operations.compaction import CompactSummary
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import RestoreReport
from streams_recovery.operations.savepoint import PublishedSavepoint
from streams_recovery.operators.base import (
    RESTORES,
    SAVEPOINTS,
    StepOperator,
    declared_params,
    received,
    requested_by,
    restores_of,
    run_id_of,
    savepoints_of,
)
from streams_recovery.operators.restore import PARAMS
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


class ReportOperator(Logged, BaseOperator):
    """Makes the event. ``summary`` renders to the JSON that an earlier task has returned. ``about`` is the name of the application, or a template of it: then
    ``known`` is false, and the event goes to the application's asset by way of an alias.
    """

    template_fields: Sequence[str] = ("summary", "about")

    def __init__(
        self,
        *,
        summary: str,
        about: str,
        known: bool,
        asset: Callable[[str], Asset],
        alias: AssetAlias,
        task_id: str = "report",
        **kwargs: Any,
    ) -> None:
        super().__init__(task_id=task_id, outlets=[asset(about) if known else alias], **kwargs)
        self.summary = summary
        self.about = about
        self.known = known
        self._asset, self._alias = asset, alias

    def emit(self, context: Context, facts: dict[str, Any]) -> None:
        if self.known:
            context["outlet_events"][self._asset(self.about)].extra = facts
        else:
            context["outlet_events"][self._alias].add(self._asset(self.about), extra=facts)


class ReportSavepointOperator(ReportOperator):
    """For each savepoint. Fails when *publish* has left no result, so the run fails when the savepoint was not published."""

    def __init__(self, *, summary: str, about: str, known: bool = True, **kwargs: Any) -> None:
        super().__init__(summary=summary, about=about, known=known, asset=savepoints_of, alias=SAVEPOINTS, **kwargs)

    def execute(self, context: Context) -> None:
        published = received(PublishedSavepoint, self.summary, "publish")
        self.emit(context, savepoint_facts(published))
        for warning in published.warnings:
            self.log.warning("Savepoint %s: %s", published.savepoint_id, warning)
        survives = "survives" if published.survives_cluster_loss else "does not survive"
        self.log.info(
            "Savepoint %s: %s, %s records, %s new; it %s the loss of the cluster",
            published.savepoint_id,
            published.consistency,
            published.records,
            published.new_records,
            survives,
        )


class ReportCompactedOperator(ReportOperator):
    """For each compacted savepoint."""

    def __init__(self, *, summary: str, about: str, **kwargs: Any) -> None:
        super().__init__(summary=summary, about=about, known=True, asset=savepoints_of, alias=SAVEPOINTS, **kwargs)

    def execute(self, context: Context) -> None:
        self.emit(context, compacted_facts(received(CompactSummary, self.summary, "publish")))


class ReportRestoreOperator(ReportOperator):
    """For each restore that is finished."""

    def __init__(self, *, summary: str, about: str, known: bool, **kwargs: Any) -> None:
        super().__init__(summary=summary, about=about, known=known, asset=restores_of, alias=RESTORES, **kwargs)

    def execute(self, context: Context) -> None:
        self.emit(context, restore_facts(received(RestoreReport, self.summary, "finish")))


def savepoint_facts(published: PublishedSavepoint) -> dict[str, Any]:
    """What the event of a savepoint says: all that is known of it in numbers."""
    said: dict[str, Any] = codec.encode(published)
    # Whoever may see assets need not learn who works here.
    del said["requested_by"]
    return {"kind": "savepoint", "manifest": said.pop("manifest_key"), **said}


def compacted_facts(published: CompactSummary) -> dict[str, Any]:
    """What the event of a compacted savepoint says."""
    return {
        "kind": "compacted",
        "application_id": published.application_id,
        "savepoint_id": published.savepoint_id,
        "compacted_from": published.source_id,
        "manifest": published.manifest_key,
        "records": published.records,
        "records_before": published.records_before,
    }


def restore_facts(report: RestoreReport) -> dict[str, Any]:
    """What the event of a restore says."""
    return {
        "kind": "restore",
        "application_id": report.application_id,
        "restore_id": report.restore_id,
        "savepoint_id": report.savepoint_id,
        "verdict": report.verdict.value,
    }
