"""The last word of a savepoint's run: an asset event, and with it a leaf that fails when the savepoint was not published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Asset, BaseOperator, Context

from streams_recovery.operations.savepoint import SavepointSummary
from streams_recovery.operators.base import received


class ReportSavepointOperator(BaseOperator):
    """Tell whoever waits for savepoints of this application. ``summary`` is the JSON that publish returned."""

    template_fields: Sequence[str] = ("summary",)

    def __init__(self, *, summary: str, asset: Asset, **kwargs: Any) -> None:
        super().__init__(outlets=[asset], **kwargs)
        self.summary = summary
        self.asset = asset

    def execute(self, context: Context) -> None:
        """Attach the savepoint's numbers to the asset event."""
        published = received(SavepointSummary, self.summary, "publish")
        context["outlet_events"][self.asset].extra = {
            "savepoint_id": published.savepoint_id,
            "manifest": published.manifest_key,
            "consistency": published.consistency.value,
            "profile": published.profile.value,
            "survives_cluster_loss": published.survives_cluster_loss,
            "records": published.records,
            "new_records": published.new_records,
            "warnings": list(published.warnings),
        }
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
