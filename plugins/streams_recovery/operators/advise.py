"""Advice about an application as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context

from streams_recovery.core import codec
from streams_recovery.hooks.context import Logged, airflow_errors, context_of
from streams_recovery.operations.status.advise import advice


class AdviseOperator(Logged, BaseOperator):
    """What makes a recovery of the application slow or impossible, as a list of findings for XCom; each is logged too. It changes nothing, and succeeds
    whatever it finds.
    """

    template_fields: Sequence[str] = ("application_name",)

    def __init__(self, *, application_name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.application_name = application_name

    def execute(self, context: Context) -> list[Any]:
        """Look, and tell."""
        with airflow_errors(), context_of(self.application_name) as recovery:
            found = advice(recovery)
        for finding in found:
            self.log.info("%s, %s: %s", finding.severity, finding.kind, finding.text)
            for remedy in finding.remedies:
                self.log.info("    %s", remedy)
        plain: list[Any] = codec.encode(found)
        return plain
