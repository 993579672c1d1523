"""A restore that moves the application to another site: a look at the old site, its stop or its fence, and the records of both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from streams_recovery.core.errors import ApplicationRunning, LockLost, OffsetsUnstable, RecoveryError, Refused
from streams_recovery.core.escaping import logger
from streams_recovery.core.group_members import Roll
from streams_recovery.core.repository.sites import Fence, SeenSite
from streams_recovery.core.restore.failover import check_left
from streams_recovery.operations import quiesce_record
from streams_recovery.operations.bring_down import await_decided, empty_group, require_known_members, stop_instances
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import require_lock
from streams_recovery.operations.restore.values import RestoreTicket, StopSummary

LOGGER = logger("streams_recovery.operations.restore.move")
# What is no sign of a site that is lost, but of one that answers.
_ANSWERED: Final = (ApplicationRunning, OffsetsUnstable, LockLost)


@contextmanager
def where_it_runs(recovery: RecoveryContext, before: str | None) -> Iterator[RecoveryContext]:
    """The context at the site that the application leaves, or ``recovery`` itself where it moves nowhere."""
    if before is None:
        yield recovery
    else:
        with recovery.at(before) as old:
            yield old


def running_at(recovery: RecoveryContext, before: str | None) -> tuple[str, ...]:
    """Instances that run, and those that a dead run has left stopped. Empty if the site that is left cannot be asked."""
    try:
        with where_it_runs(recovery, before) as old:
            return quiesce_record.at_work(old)
    except RecoveryError as error:
        if before is None:
            raise
        LOGGER.warning("what runs at the site %s is not known: %s", before, error.reason)
        return ()


def leave(recovery: RecoveryContext, ticket: RestoreTicket, old: RecoveryContext, lost: str, *, on_record: bool) -> StopSummary:
    """Stop every instance at the site ``old`` and empty the group there, or fence the site where a person has typed that it is ``lost`` and it does not answer;
    and enter the move in the log. With ``on_record`` the stop is written down before it happens, so that a later run can bring the instances back. Raises
    ``ApplicationRunning`` if the site answers and an instance goes on running, whatever was typed; ``Refused`` if it does not answer and nothing was typed.
    """
    unproven: list[str] = []
    known = Roll(accounted={})
    try:
        # Before anything is stopped. Nothing is known of a cluster that does not answer, nor of instances that cannot be asked: see below.
        known = require_known_members(old)
    except _ANSWERED:
        raise
    except RecoveryError as error:
        LOGGER.warning("who is in the group of %s at the site %s is not known: %s", old.application_id, old.site, error.reason)
    try:
        if on_record:
            quiesce_record.begin_stop(old, ticket.restore_id, ticket.running)
        require_lock(recovery, ticket)
        report = stop_instances(old, where=f" at the site {old.site}")
    except _ANSWERED:
        raise
    except RecoveryError as error:
        report = None
        unproven.append(f"instances: {error.reason}")
    cluster_id = ""
    try:
        cluster_id = old.cluster.cluster_id()
        if report is not None:
            empty_group(old, report, known)
            await_decided(old)
        elif not (group := old.groups.describe(old.application_id)).empty:
            raise ApplicationRunning(
                f"the group {old.application_id} is in use at the site {old.site} (state {group.state}), and its instances cannot be asked",
                next_step="stop these instances first: their cluster answers, so they would go on processing beside the new site",
                group=old.application_id,
            )
    except _ANSWERED:
        raise
    except RecoveryError as error:
        unproven.append(f"cluster: {error.reason}")
    seen = SeenSite(site=old.site, cluster_id=cluster_id, instances=(), members=(), unseen=tuple(unproven))
    recovery.sites.write(
        recovery.sites.moving(
            recovery.site,
            cluster_id=recovery.cluster.cluster_id(),
            run=ticket.restore_id,
            requested_by=ticket.requested_by,
            reason=ticket.request.reason,
            fence=_fence(recovery, ticket, seen, lost),
        )
    )
    return StopSummary(
        instances=() if report is None else tuple(one.name for one in report.instances),
        closed_cleanly=report is not None and report.clean,
        unproven=tuple(unproven),
    )


def _fence(recovery: RecoveryContext, ticket: RestoreTicket, seen: SeenSite, lost: str) -> Fence | None:
    """The fence of a site that is not proven down. Raises ``Refused`` if no person has typed the name of the site. Not if the move is on record by now: then
    this restore has proven it before, and must be resumable when the site goes away later.
    """
    if not seen.unseen:
        return None
    entry = recovery.sites.entry()
    if entry is None or (entry.site, entry.run) != (recovery.site, ticket.restore_id):
        check_left(seen, lost)
    return Fence(site=seen.site, cluster_id=seen.cluster_id, since=recovery.clock(), run=ticket.restore_id)


def require_entered(recovery: RecoveryContext, ticket: RestoreTicket) -> None:
    """Raise ``Refused`` unless the move is in the log: from here on the site that was left must not be started again."""
    newest = next(recovery.sites.log.readable_back(), None)
    if newest is None or (newest.site, newest.run) != (recovery.site, ticket.restore_id):
        raise Refused(
            f"the move of {recovery.application_id} to the site {recovery.site} is not the newest entry in the log of its sites",
            next_step="nothing was changed; find out who writes there, then begin a new failover",
            newest=None if newest is None else newest.run,
        )
