"""The tasks that look into savepoints for a person, and the last task of a run, which makes an asset event.

Values stay out of XCom: the log and the page have the result. The event has the facts of what was made, and the lineage. It comes last, so that a mistake in
assets harms nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context

from streams_recovery.core import codec
from streams_recovery.core.forms import request_of
from streams_recovery.core.state.inspection import Inspection, LookUpRequest, compare_request, inspection_lines
from streams_recovery.hooks.context import Logged
from streams_recovery.operations.compaction import CompactSummary
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import RestoreReport
from streams_recovery.operations.savepoint import PublishedSavepoint
from streams_recovery.operators.base import (
    RESTORES,
    SAVEPOINTS,
    ParamsOperator,
    received,
    requested_by,
    restores_of,
    run_id_of,
    savepoints_of,
)
from streams_recovery.workflows import maintenance as steps


class InspectionOperator(ParamsOperator):
    """A task that shows what a person wants to see of a savepoint."""

    def logged(self, found: Inspection) -> dict[str, str]:
        """Log all of it, and return what everybody may know."""
        for line in inspection_lines(found):
            self.log.info("%s", line)
        return {"savepoint_id": found.savepoint_id, "other": found.other, "outcome": found.outcome.value}


class CompareSavepointsOperator(InspectionOperator):
    """Compare the stores of a savepoint with those of another one, or with the running application's. Reads only."""

    takes = steps.COMPARE

    def step(self, recovery: RecoveryContext, context: Context) -> dict[str, str]:
        request = compare_request(self.params_of_run(), run_id=run_id_of(context), requested_by=requested_by(context))
        return self.logged(self.called(recovery, request))


class LookUpOperator(InspectionOperator):
    """Look up a key of a store, or the newest records of a topic, in a savepoint. Reads only."""

    takes = steps.LOOK_UP

    def step(self, recovery: RecoveryContext, context: Context) -> dict[str, str]:
        request = request_of(LookUpRequest, self.params_of_run(), run_id=run_id_of(context), requested_by=requested_by(context))
        return self.logged(self.called(recovery, request))


class ReportOperator(Logged, BaseOperator):
    """Makes the event. ``summary`` renders to the JSON that an earlier task has returned. ``about`` is the name of the application, or a template of it: then
    ``known`` is false, and the event goes to the application's asset by way of ``alias``.
    """

    alias: ClassVar[AssetAlias] = SAVEPOINTS
    template_fields: Sequence[str] = ("summary", "about")

    def __init__(self, *, summary: str, about: str, known: bool = True, task_id: str = "report", **kwargs: Any) -> None:
        super().__init__(task_id=task_id, outlets=[self.asset(about) if known else self.alias], **kwargs)
        self.summary = summary
        self.about = about
        self.known = known

    @staticmethod
    def asset(name: str) -> Asset:
        """The asset of the application of this name."""
        return savepoints_of(name)

    def emit(self, context: Context, facts: dict[str, Any]) -> None:
        if self.known:
            context["outlet_events"][self.asset(self.about)].extra = facts
        else:
            context["outlet_events"][self.alias].add(self.asset(self.about), extra=facts)


class ReportSavepointOperator(ReportOperator):
    """For each savepoint. Fails when *publish* has left no result, so the run fails when the savepoint was not published."""

    def execute(self, context: Context) -> None:
        published = received(PublishedSavepoint, self.summary, "publish")
        self.emit(context, savepoint_facts(published))
        for warning in published.warnings:
            self.log.warning("Savepoint %s: %s", published.savepoint_id, warning)


class ReportCompactedOperator(ReportOperator):
    """For each compacted savepoint."""

    def execute(self, context: Context) -> None:
        self.emit(context, compacted_facts(received(CompactSummary, self.summary, "publish")))


class ReportRestoreOperator(ReportOperator):
    """For each restore that is finished."""

    alias = RESTORES

    @staticmethod
    def asset(name: str) -> Asset:
        return restores_of(name)

    def execute(self, context: Context) -> None:
        self.emit(context, restore_facts(received(RestoreReport, self.summary, "finish")))


def savepoint_facts(published: PublishedSavepoint) -> dict[str, Any]:
    """The facts in the event of a savepoint: all that is known of it in numbers."""
    said: dict[str, Any] = codec.encode(published)
    # A person who may see assets need not learn who works here.
    del said["requested_by"]
    return {"kind": "savepoint", "manifest": said.pop("manifest_key"), **said}


def compacted_facts(published: CompactSummary) -> dict[str, Any]:
    """The facts in the event of a compacted savepoint."""
    return {
        "kind": "compacted",
        "how": published.how.value,
        "application_id": published.application_id,
        "savepoint_id": published.savepoint_id,
        "compacted_from": published.source_id,
        "manifest": published.manifest_key,
        "records": published.records,
        "records_before": published.records_before,
    }


def restore_facts(report: RestoreReport) -> dict[str, Any]:
    """The facts in the event of a restore."""
    return {
        "kind": "restore",
        "application_id": report.application_id,
        "restore_id": report.restore_id,
        "savepoint_id": report.savepoint_id,
        "verdict": report.verdict.value,
    }
