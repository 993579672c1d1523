"""An upgrade in one go: the old application is stopped for a savepoint and stays down, and the clone is started from that very savepoint as the live one.

In between the old application is already on record as replaced, so that nothing starts it: no hourly savepoint, and no other run.
"""

from __future__ import annotations

from streams_recovery.core.errors import Damaged, NotExact, Refused
from streams_recovery.core.kafka_types import Consistency, QuiesceMode
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.rollout.cutover import UpgradePlan, upgrade_plan, upgrade_problems
from streams_recovery.operations import quiesce_record, savepoint
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import input_partitions
from streams_recovery.operations.renewed_lock import LEASE_SECONDS, require_lock
from streams_recovery.operations.restore import RestoreTicket, phase_of
from streams_recovery.operations.rollout.cutover import entry, require_down
from streams_recovery.operations.rollout.discover import look, offsets_of, role
from streams_recovery.operations.rollout.open import refuse
from streams_recovery.operations.rollout.values import BroughtBack
from streams_recovery.operations.savepoint.begin import owner


def plan_upgrade(old: RecoveryContext, clone: RecoveryContext) -> UpgradePlan:
    """What an upgrade would do now. Changes nothing. Raises ``Refused`` naming everything that blocks it at once."""
    pair = look(old, clone)
    refuse(upgrade_problems(pair), f"upgrade from {old.application_id} to {clone.application_id}")
    return upgrade_plan(pair)


def retire(old: RecoveryContext, clone: RecoveryContext, ticket: savepoint.Ticket, cut: savepoint.CutSummary) -> None:
    """Put on record that the old application, which the savepoint has stopped, stays down. Raises ``NotExact`` when the cut is not exact, and
    ``ApplicationRunning``.
    """
    require_lock(old, ticket)
    if cut.consistency is not Consistency.EXACT:
        raise NotExact(
            f"the savepoint of {old.application_id} is {cut.consistency}, so a clone of it could count some input twice",
            next_step="the old application is started again; see why it did not close cleanly, then run the upgrade again",
        )
    if role(clone) is not Role.STANDBY:
        raise Refused(f"{clone.application_id} is {role(clone)} by now", next_step="no output was transferred; see which run did that")
    require_down(old)
    last = old.ownership.last()
    if last is None or last.role is not Role.RETIRED or last.run != ticket.request.run_id:
        old.ownership.append(entry(old, clone, ticket.request.run_id, Role.RETIRED, again={}, tail={}))
    quiesce_record.end(old, of=ticket.savepoint_id)


def make_live(old: RecoveryContext, clone: RecoveryContext, ticket: RestoreTicket) -> BroughtBack:
    """Put on record that the clone, restored and not started yet, writes the real outputs from now on. Raises ``Refused`` unless the old application is
    replaced and down, and the clone begins exactly where it stopped.
    """
    require_lock(clone, ticket)
    phase = phase_of(clone, ticket)
    if role(clone) is Role.LIVE or phase.rank >= Phase.STARTED.rank:
        return BroughtBack(live=clone.application_id, started=())
    last = old.ownership.last()
    if phase is not Phase.WIPED or last is None or last.role is not Role.RETIRED or last.other != clone.application_id:
        raise Refused(
            f"restore {ticket.restore_id} of {clone.application_id} is in phase {phase}, and {old.application_id} is {role(old)}",
            next_step="run the upgrade from its beginning",
        )
    require_down(old)
    begins = offsets_of(clone, input_partitions(clone))
    if begins != last.offsets:
        wrong = sorted(str(tp) for tp in {*begins, *last.offsets} if begins.get(tp) != last.offsets.get(tp))
        raise Damaged(
            f"{clone.application_id} would not begin where {old.application_id} stopped: {', '.join(wrong[:10])}",
            next_step="run the upgrade from its beginning",
        )
    clone.ownership.append(entry(clone, old, last.run, Role.LIVE, again={}, tail={}))
    return BroughtBack(live=clone.application_id, started=())


def bring_back(old: RecoveryContext, clone: RecoveryContext, ticket: savepoint.Ticket) -> BroughtBack:
    """The end of an upgrade, however it went. Unless the clone is live, the old application writes the outputs again, and what ran of it runs again.
    Repeating it is harmless. What does not come back is on record: the next savepoint of the old application tries again.
    """
    if role(clone) is Role.LIVE:
        return BroughtBack(live=clone.application_id, started=())
    lock = old.lock.acquire(owner(ticket.request), lease_seconds=LEASE_SECONDS, purpose=f"end of an upgrade of {old.application_id}")
    try:
        last = old.ownership.last()
        if last is not None and last.role is Role.RETIRED:
            if last.run != ticket.request.run_id:
                return BroughtBack(live=last.other, started=())
            # First: were only the other entry written before a kill, the application would be down and nobody would start it.
            quiesce_record.begin_stop(old, ticket.savepoint_id, ticket.running)
            old.ownership.append(entry(old, clone, ticket.request.run_id, Role.LIVE, again={}, tail={}))
        back = quiesce_record.resume(old, QuiesceMode.STOP, ticket.running)
        quiesce_record.end(old, of=ticket.savepoint_id)
        return BroughtBack(live=old.application_id, started=back)
    finally:
        old.lock.release(lock)
