"""Tasks that somebody clears: Airflow takes `begin` along, which begins another savepoint, and hands the steps behind it what the first attempt read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from streams_recovery.core.errors import Refused
from streams_recovery.core.run_artifact import NoteRef
from streams_recovery.operations import savepoint
from streams_recovery.operations.context import Workbench, wall_clock
from streams_recovery.operations.savepoint.values import CutSummary, GatherSummary, JobPlan, Quiesced, Ticket
from tests.integration.small import Small, begun, copied, produce

pytestmark = pytest.mark.kafka
HOURS_LATER = 4 * 3_600_000


@dataclass(frozen=True)
class Read:
    """What the steps of one attempt returned."""

    quiesced: Quiesced
    cut: CutSummary
    plan: JobPlan
    result: NoteRef | None
    gathered: GatherSummary


def attempted(bench: Workbench, ticket: Ticket) -> Read:
    """All steps up to the one that publishes, which is never reached."""
    try:
        quiesced = savepoint.quiesce(bench, ticket)
        cut = savepoint.capture(bench, ticket, quiesced)
        plan = savepoint.plan_copy(bench, ticket, cut.draft)
        result = copied(bench, plan)
        return Read(quiesced, cut, plan, result, savepoint.gather(bench, ticket, plan.plan, result))
    finally:
        savepoint.finish(bench, ticket)


CLEARED: dict[str, Callable[[Workbench, Ticket, Read], object]] = {
    "capture_cut": lambda bench, ticket, read: savepoint.capture(bench, ticket, read.quiesced),
    "copy_records": lambda bench, ticket, read: savepoint.plan_copy(bench, ticket, read.cut.draft),
    "verify_segments": lambda bench, ticket, read: savepoint.gather(bench, ticket, read.plan.plan, read.result),
    "publish": lambda bench, ticket, read: savepoint.publish(bench, ticket, read.gathered.copied),
}


@pytest.mark.fault("F20")
@pytest.mark.parametrize("task", CLEARED)
def test_what_an_earlier_attempt_has_read_is_in_no_savepoint(small: Small, task: str) -> None:
    bench = small.bench
    produce(bench, small.changelog, 3)
    first = begun(bench)
    read = attempted(bench, first)
    later = replace(bench, clock=lambda: wall_clock() + HOURS_LATER)
    second = savepoint.begin(later, first.request)
    try:
        assert second.savepoint_id != first.savepoint_id
        with pytest.raises(Refused, match=f"{first.savepoint_id}.* another attempt.*trigger a new run"):
            CLEARED[task](later, second, read)
        assert bench.savepoints.ids() == []
    finally:
        savepoint.finish(bench, second)
