"""Announcement of a deletion, days before an expiry deletes."""

from __future__ import annotations

from streams_recovery.core.repository.retention import (
    WITHDRAWN,
    Announcement,
    Apply,
    DeletionOutlook,
    DeletionPolicy,
    announcement,
    needs_announcement,
    outlook,
    rules_of,
)
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.unfinished import keep_rules
from streams_recovery.storage.append_log import AppendLog


def deletion_outlook(recovery: RecoveryContext) -> DeletionOutlook:
    """Tell what runs of the schedule do now. Reads one entry of one log, and changes nothing."""
    return _outlook(recovery, _policy(recovery, recovery.config.retention.apply))


def announce(recovery: RecoveryContext, run_id: str) -> DeletionOutlook:
    """Announce that runs delete, unless it is announced under the present rules already. Returns from when on they do."""
    policy, now = _policy(recovery, Apply.AFTER_DAYS), recovery.clock()
    found = _outlook(recovery, policy)
    if not needs_announcement(found):
        return found
    made = announcement(policy, now=now, run_id=run_id)
    _log(recovery).append(made)
    return outlook(policy, made, stored_at=now, now=now)


def scheduled(recovery: RecoveryContext, run_id: str, apply: Apply) -> DeletionOutlook:
    """Announce what has to be announced, and tell what a run of the schedule does now. A configuration that never deletes ends what was announced."""
    if apply is Apply.AFTER_DAYS:
        return announce(recovery, run_id)
    if apply is Apply.NO and recovery.config.retention.apply is Apply.NO:
        withdraw(recovery, run_id)
    now = recovery.clock()
    return outlook(_policy(recovery, apply), None, stored_at=now, now=now)


def withdraw(recovery: RecoveryContext, run_id: str) -> None:
    """End the announcement: if runs may delete again later, they announce it anew."""
    newest = _log(recovery).last()
    if newest is not None and newest.rules != WITHDRAWN:
        now = recovery.clock()
        _log(recovery).append(Announcement(at=now, deletes_from=now, rules=WITHDRAWN, run_id=run_id))


def _outlook(recovery: RecoveryContext, policy: DeletionPolicy) -> DeletionOutlook:
    now = recovery.clock()
    newest, stored_at = next(_log(recovery).dated_back(), (None, now))
    return outlook(policy, newest, stored_at=stored_at, now=now)


def _log(recovery: RecoveryContext) -> AppendLog[Announcement]:
    return AppendLog(recovery.repository, recovery.layout.announcements, Announcement)


def _policy(recovery: RecoveryContext, apply: Apply) -> DeletionPolicy:
    retention = recovery.config.retention
    return DeletionPolicy(
        apply=apply,
        after_days=retention.after_days,
        scheduled=retention.schedule is not None,
        rules=rules_of(
            keep_rules(recovery), grace_days=retention.grace_days, safety_days=retention.safety_days, work_days=retention.work_days
        ),
    )
