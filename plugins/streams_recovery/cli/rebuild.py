"""The commands that rebuild an application's state from its input."""

from __future__ import annotations

from typing import Annotated

from streams_recovery.cli.approval import Approve, PlanOnly, reason_of, without_reason
from streams_recovery.cli.context import DEFAULT_CONFIGS, DEFAULT_LOGS, AsJson, Configs, Logs, Name, asked_offsets, option, recovery_of
from streams_recovery.cli.restore import Delete, Reason, Replace, Safety, carry_out, safeguards
from streams_recovery.core.restore.request import OutputPolicy, SafetyPolicy
from streams_recovery.operations.restore.strategies import Rebuild

_FORM = {one.name: one for one in Rebuild.FORM}
Begin = Annotated[str, option(_FORM["offsets"])]
AcceptGap = Annotated[bool, option(_FORM["accept_gap"])]
InputsFrom = Annotated[str, option(_FORM["inputs_from"])]
Outputs = Annotated[OutputPolicy, option(_FORM["outputs"])]


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
