"""The command that brings single topics back."""

from __future__ import annotations

from typing import Annotated

from streams_recovery.cli.approval import Approve, PlanOnly, reason_of, without_reason
from streams_recovery.cli.context import (
    DEFAULT_CONFIGS,
    DEFAULT_LOGS,
    AsJson,
    Configs,
    Logs,
    Name,
    Savepoint,
    asked_moment,
    option,
    recovery_of,
)
from streams_recovery.cli.restore import By, Reason, carry_out
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.names import checked_name
from streams_recovery.core.restore.single_topics import ReadOn
from streams_recovery.operations.restore.strategies import RestoreTopics

_FIELDS = {one.name: one for one in RestoreTopics.FORM}
Topics = Annotated[list[str], option(_FIELDS["topics"])]
Moment = Annotated[str, option(_FIELDS["as_of"])]
NewName = Annotated[str, option(_FIELDS["new_name"])]
Partitions = Annotated[list[int] | None, option(_FIELDS["partitions"], min=0)]
WhereOn = Annotated[ReadOn, option(_FIELDS["read_on"])]


def restore_topics(
    name: Name,
    topic: Topics,
    reason: Reason = "",
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    new_name: NewName = "",
    savepoint: Savepoint = "latest",
    as_of: Moment = "",
    by: By = CutBy.TIMESTAMP,
    partition: Partitions = None,
    read_on: WhereOn = ReadOn.PROVEN,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Bring single inputs, outputs or globals back from a savepoint. The application's state stays as it is. Shows the plan and asks first."""
    with recovery_of(name, configs) as recovery:
        request = RestoreTopics(
            topics=tuple(checked_name("topic", one) for one in topic),
            new_name=new_name,
            savepoint=savepoint,
            cut_at=asked_moment(recovery, as_of, by) if as_of else None,
            partitions=tuple(partition or ()),
            read_on=read_on,
            reason=reason_of(reason, plan_only=plan_only),
        )
        carry_out(recovery, request, logs, plan_only=plan_only, approve=approve, as_json=as_json, more=without_reason(reason))
