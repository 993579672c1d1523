"""The commands that rebuild an application's state from its input."""

from __future__ import annotations

from typing import Annotated

import typer

from streams_recovery.cli.approval import Approve, PlanOnly, reason_of, without_reason
from streams_recovery.cli.context import DEFAULT_CONFIGS, DEFAULT_LOGS, AsJson, Configs, Logs, Name, asked_offsets, recovery_of
from streams_recovery.cli.restore import Delete, Reason, Replace, Safety, carry_out, safeguards
from streams_recovery.core.offsets.strategies import REBUILD_HELP
from streams_recovery.core.restore.request import OutputPolicy, SafetyPolicy
from streams_recovery.operations.restore.strategies import Rebuild

Begin = Annotated[str, typer.Option("--offsets", help=f"Where the inputs begin. {REBUILD_HELP}. A file may be anywhere.")]
AcceptGap = Annotated[bool, typer.Option("--accept-gap", help="Accept missing older input: begin where the input begins now.")]
InputsFrom = Annotated[
    str,
    typer.Option("--inputs-from", help="A savepoint's id, or `latest`: inputs, globals and outputs that are gone are made from it first."),
]
Outputs = Annotated[OutputPolicy, typer.Option("--outputs", help="recreate: empty the outputs first.")]


def rebuild(
    name: Name,
    reason: Reason = "",
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    offsets: Begin = "earliest",
    accept_gap: AcceptGap = False,
    inputs_from: InputsFrom = "",
    outputs: Outputs = OutputPolicy.KEEP,
    replace: Replace = False,
    delete: Delete = None,
    safety: Safety = SafetyPolicy.REQUIRED,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Delete the application's internal topics and let it build its state again from the input. Shows the plan and asks first."""
    with recovery_of(name, configs) as recovery:
        request = Rebuild(
            reason=reason_of(reason, plan_only=plan_only),
            safeguards=safeguards(recovery, replace=replace, delete=delete, safety=safety),
            offsets=asked_offsets(recovery, configs, offsets),
            outputs=outputs,
            accept_gap=accept_gap,
            inputs_from=inputs_from,
        )
        carry_out(recovery, request, logs, plan_only=plan_only, approve=approve, as_json=as_json, more=without_reason(reason))
