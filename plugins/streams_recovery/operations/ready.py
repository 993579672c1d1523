"""Waiting until an application that was started is at work: RUNNING, and with its input read as far as it went at the start."""

from __future__ import annotations

from collections.abc import Mapping

from streams_recovery.core.errors import ApplicationNotReady
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.waiting import poll_falling, while_falling
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.lag import RecordLag


def await_at_work(recovery: RecoveryContext, ends: Mapping[TopicPartition, int], *, again: str) -> None:
    """Wait until every instance is RUNNING and every record of the inputs up to their ends is processed. As long as the instances report fewer and
    fewer records that are left to restore, and then as long as the inputs are worked off, there is no limit. Raises ``ApplicationNotReady`` when
    nothing has moved for the configured time; ``again`` is the command that waits once more.
    """
    patience = float(recovery.config.restore.catch_up_timeout_seconds)
    # Stores are read from their changelogs before an instance is RUNNING. How far that has come only the instances themselves can tell.
    restoring = f"every instance of {recovery.application_id} to be RUNNING, records to restore"
    start_timeout = recovery.config.runs.chosen.start_timeout
    if poll_falling(lambda: _running(recovery), patience=max(start_timeout, patience), what=restoring) is None:
        raise _not_ready(recovery, "not every instance is RUNNING", again)
    lag, inputs = RecordLag(recovery), list(ends)
    left = while_falling(
        lambda: sum(one.left for one in lag.look(ends, recovery.groups.committed(recovery.application_id, inputs)).values()),
        patience=patience,
        what=f"{recovery.application_id} to read its input up to where it ended, offsets",
    )
    if left:
        reason = f"its inputs are {left} offsets behind the ends they had, and nothing was processed for {patience:.0f} s"
        raise _not_ready(recovery, reason, again, behind=left)


def _not_ready(recovery: RecoveryContext, reason: str, again: str, **facts: object) -> ApplicationNotReady:
    """The error, with what every instance says."""
    states = ", ".join(
        f"{i.name}: {i.state}, {i.streams_state}{f', {i.restoring} records left to restore' if i.restoring else ''} ({i.detail})"
        for i in recovery.application.status()
    )
    return ApplicationNotReady(
        f"{recovery.application_id}: {reason}. Instances: {states}",
        next_step="look at the instances' logs, then run it again: what is down is started, and waited for",
        states=states,
        **facts,
    ).then(again)


def _running(recovery: RecoveryContext) -> tuple[bool | None, int]:
    statuses = recovery.application.status()
    running = bool(statuses) and all(i.streams_state == "RUNNING" for i in statuses)
    return running or None, sum(i.restoring or 0 for i in statuses)
