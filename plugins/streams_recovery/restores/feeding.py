"""The input that was held back from an application until it had processed what comes before: loaded while it runs, and compared."""

from __future__ import annotations

from streams_recovery.core.errors import Damaged
from streams_recovery.core.journal import Phase
from streams_recovery.core.model import TopicPartition
from streams_recovery.core.plan import PartitionLoad, RestorePlan
from streams_recovery.restores.comparing import VERIFIED, compare_job, compared, verified
from streams_recovery.restores.creating import standings
from streams_recovery.restores.halting import await_ends
from streams_recovery.restores.loading import check_written, load_job, work_of
from streams_recovery.restores.opening import guarded, note, stored_plan
from streams_recovery.restores.values import LoadSummary, RestoreTicket, VerifySummary
from streams_recovery.savepoints.values import NO_JOB, JobPlan
from streams_recovery.workbench import Workbench


def plan_feed(bench: Workbench, ticket: RestoreTicket) -> JobPlan:
    """Wait until the application has processed all that it has, and return the specification of the job that loads the rest, which is none where nothing
    was held back. Repeating it goes on behind what an earlier attempt has loaded.

    Raises ``ApplicationNotReady`` when the application processes no more, and ``Damaged`` for records that cannot be of this restore.
    """
    _, held = _held(bench, ticket)
    if not held:
        return NO_JOB
    planned = await_ends(bench, ticket)
    standing = standings(bench, planned)
    strange = sorted(str(tp) for tp in held if standing[tp].present is None)
    if strange:
        raise Damaged(
            f"{', '.join(strange)} hold records that this restore cannot have written, while the application reads them",
            next_step="find out who writes there and stop that; then process the interval again from its beginning",
            partitions=strange,
        )
    return load_job(bench, ticket, held, standing, {})


def check_feed(bench: Workbench, ticket: RestoreTicket, result_key: str | None) -> LoadSummary:
    """Compare what the job wrote with the plan and with the logs' ends."""
    _, held = _held(bench, ticket)
    return check_written(bench, {tp: load.rows for tp, load in held.items()}, result_key)


def plan_verify_feed(bench: Workbench, ticket: RestoreTicket) -> JobPlan:
    """The specification of the job that compares the inputs that are whole now with the archive."""
    _, held = _held(bench, ticket)
    return compare_job(bench, ticket, held, ()) if held else NO_JOB


def check_verify_feed(bench: Workbench, ticket: RestoreTicket, result_key: str | None) -> VerifySummary:
    """Raise ``Damaged`` unless every input of which something was held back was compared and equal. What was compared before the start counts on."""
    planned, held = _held(bench, ticket)
    before = verified(bench, ticket)
    if held:
        found = compared(bench, planned, held, result_key).partitions
        whole = tuple(one for one in before.partitions if TopicPartition(one.topic, one.partition) not in held) + found
        before = VerifySummary(
            partitions=whole,
            stores=before.stores,
            rows_compared=sum(one.loaded_rows for one in whole),
            keys_compared=before.keys_compared,
        )
        bench.notes.write(ticket.restore_id, VERIFIED, before)
    note(bench, ticket, Phase.FED)
    return before


def _held(bench: Workbench, ticket: RestoreTicket) -> tuple[RestorePlan, dict[TopicPartition, PartitionLoad]]:
    guarded(bench, ticket, at_least=Phase.RECOVERED, before=Phase.CLOSED)
    planned = stored_plan(bench, ticket)
    held = planned.held_back
    return planned, {tp: load for tp, load in work_of(planned).items() if tp in held}
