"""Tasks that somebody clears: Airflow takes `begin` along, which begins another savepoint, and hands the steps behind it what the first attempt read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from streams_recovery.core.errors import Refused
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations import savepoint
from streams_recovery.operations.context import RecoveryContext, wall_clock
from streams_recovery.operations.savepoint.values import CutSummary, GatherSummary, Quiesced, Ticket
from tests.support.applications.savepoint_steps import begun, copied
from tests.support.applications.small import Small
from tests.support.applications.topic_records import produce

pytestmark = pytest.mark.kafka
HOURS_LATER = 4 * 3_600_000


@dataclass(frozen=True)
class Read:
    """What the steps of one attempt returned."""

    quiesced: Quiesced
    cut: CutSummary
    plan: JobPlan
    result: ArtifactRef | None
    gathered: GatherSummary


def attempted(recovery: RecoveryContext, ticket: Ticket) -> Read:
    """All steps up to the one that publishes, which is never reached."""
    try:
        quiesced = savepoint.quiesce(recovery, ticket)
        cut = savepoint.capture(recovery, ticket, quiesced)
        plan = savepoint.plan_copy(recovery, ticket, cut.draft)
        result = copied(recovery, plan)
        return Read(quiesced, cut, plan, result, savepoint.gather(recovery, ticket, plan.plan, result))
    finally:
        savepoint.finish(recovery, ticket)


CLEARED: dict[str, Callable[[RecoveryContext, Ticket, Read], object]] = {
    "capture_cut": lambda recovery, ticket, read: savepoint.capture(recovery, ticket, read.quiesced),
    "copy_records": lambda recovery, ticket, read: savepoint.plan_copy(recovery, ticket, read.cut.draft),
    "verify_segments": lambda recovery, ticket, read: savepoint.gather(recovery, ticket, read.plan.plan, read.result),
    "publish": lambda recovery, ticket, read: savepoint.publish(recovery, ticket, read.gathered.copied),
}


@pytest.mark.fault("F20")
@pytest.mark.parametrize("task", CLEARED)
def test_what_an_earlier_attempt_has_read_is_in_no_savepoint(small: Small, task: str) -> None:
    recovery = small.recovery
    produce(recovery, small.changelog, 3)
    first = begun(recovery)
    read = attempted(recovery, first)
    later = replace(recovery, clock=lambda: wall_clock() + HOURS_LATER)
    second = savepoint.begin(later, first.request)
    try:
        assert second.savepoint_id != first.savepoint_id
        with pytest.raises(Refused, match="another attempt") as caught:
            CLEARED[task](later, second, read)
        assert caught.value.facts["attempt"] == second.savepoint_id
        assert first.savepoint_id in str(caught.value.facts["what"])
        assert recovery.savepoints.ids() == []
    finally:
        savepoint.finish(recovery, second)
