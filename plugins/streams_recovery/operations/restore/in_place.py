"""Inputs that are cut where they are: the last checks, and what is written down before the first of them is deleted."""

from __future__ import annotations

from streams_recovery.core.codec import MOST_BYTES
from streams_recovery.core.errors import PlanChanged
from streams_recovery.core.restore.parts.moment import MomentPart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.point_in_time import InPlace, QuarantineEntry
from streams_recovery.operations import unfinished
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.values import RestoreTicket
from streams_recovery.storage.append_log import AppendLog


def quarantine_log(recovery: RecoveryContext, restore_id: str) -> AppendLog[QuarantineEntry]:
    """The log of the later input that a restore has set aside."""
    return AppendLog(recovery.repository, recovery.layout.quarantine(restore_id), QuarantineEntry, most_bytes=MOST_BYTES)


def set_aside(recovery: RecoveryContext, ticket: RestoreTicket, approved: RestorePlan, now: RestorePlan) -> None:
    """The last thing before inputs are deleted: that they end where they were proven to, and that what comes out of them is kept and written down.

    Raises ``PlanChanged`` when something has come since, or another group has moved.
    """
    if not (isinstance(now.part, MomentPart) and isinstance(approved.part, MomentPart)):
        return
    here, shown, point = now.part.in_place, approved.part.in_place, now.part.point
    if here is None or shown is None:
        return
    # Repeated after some of it is done, this finds less, but nothing else.
    more = [name for name, topics in here.begin_anew.items() if set(topics) - set(shown.begin_anew.get(name, ()))]
    if set(here.later) - set(shown.later) or set(here.groups) - set(shown.groups) or more or set(here.unseen) - set(shown.unseen):
        raise PlanChanged(
            "other records would come out of the inputs, or other offsets be moved, than was approved",
            next_step="nothing was changed; stop every reader of the inputs, and begin again",
        )
    _check_ends(recovery, here)
    log = quarantine_log(recovery, ticket.restore_id)
    if here.later and log.last() is None:
        # Pinned before it is written down that the records are there: expiry must never take a savepoint that an entry names.
        unfinished.pin(
            recovery,
            point.archive,
            keep=True,
            requested_by=ticket.requested_by,
            reason=f"has the later input of restore {ticket.restore_id}",
            restore_id=ticket.restore_id,
        )
        log.append(
            QuarantineEntry(
                kind="set-aside",
                at=recovery.clock(),
                run=ticket.restore_id,
                savepoint_id=point.archive,
                moment=point.as_of.moment,
                topics=here.later,
            )
        )
        # Again: the pin and the entry took time, and the inputs are deleted next.
        _check_ends(recovery, here)


def _check_ends(recovery: RecoveryContext, here: InPlace) -> None:
    ends = recovery.cluster.high_watermarks(list(here.ends)) if here.ends else {}
    come = sorted(str(tp) for tp, end in ends.items() if end != here.ends[tp])
    if come:
        raise PlanChanged(
            f"a producer has written to {', '.join(come)} since the check that its producers are stopped",
            next_step="no input was touched; stop every producer of the inputs, take a savepoint, and begin again",
            topics=come,
        )
