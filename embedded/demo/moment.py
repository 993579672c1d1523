"""A point in time: a second application gets the state that the first one had then."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from embedded.applications import PAST
from embedded.demo.checks import differences, wait_counted
from embedded.demo.scene import Scene, right
from embedded.stack import APPLICATION
from examples.order_processing.truth import truth
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.operations.context import open_context

PITR = "streams_restore_pitr"
_BEFORE, _UNTIL, _AFTER = 3_000, 1_500, 1_000


def pitr(scene: Scene) -> tuple[dict[str, bool], dict[str, Any]]:
    """The moment is that of an order between two savepoints; the first application runs on and nothing of it is written."""
    generator, teller, stack = scene.generator, scene.teller, scene.several()
    with teller.phase("base", f"{_BEFORE:,} orders and a savepoint, {_UNTIL + _AFTER:,} more and another"):
        scene.feed(_BEFORE)
        base = scene.savepoint()["savepoint_id"]
        scene.feed(_UNTIL)
        last = generator.sent - 1
        scene.feed(_AFTER)
        scene.savepoint()
    at = datetime.fromtimestamp(generator.world.timestamp(last) / 1000, UTC).isoformat(timespec="milliseconds")
    written = scene.output_ends()
    with (
        open_context(stack.named(PAST), EnvironmentConnections({**os.environ, **stack.variables})) as past,
        teller.phase("moment", f"The point-in-time DAG: {PAST} as of {at}"),
    ):
        run_id = scene.run(PITR, {"application": PAST, "source": APPLICATION, "as_of": at})
        report = scene.airflow.result(PITR, run_id, "finish")
        try:
            past.application.start()
            wait_counted(past, last + 1, seconds=180)
            wrong = differences(past, truth(generator.world, range(last + 1)))
        finally:
            past.application.stop(timeout=30)
        teller.say(f"keys of {PAST} that differ from the truth at that moment, by store: {wrong}")
    with teller.phase("production", "The first application meanwhile"):
        untouched = scene.output_ends() == written
        now = scene.wrong()
    checks = {
        "base_is_the_savepoint_before": report["savepoint_id"] == base,
        "state_as_of_the_moment": right(wrong),
        "outputs_untouched": untouched,
        "state_equal": right(now),
    }
    return checks, {"as_of": at, "orders_until_then": last + 1, "orders": generator.acknowledged}
