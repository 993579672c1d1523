"""Hours of the past, processed again by a backfill beside the application."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from embedded.demo.outputs import records_of
from embedded.demo.scene import Scene, right
from embedded.stack import APPLICATION
from examples.order_processing.truth import truth
from streams_recovery.core.restore.interval import Interval

REPROCESS = f"streams_reprocess_{APPLICATION}"
HOUR_MS = 3_600_000
_ORDERS = 8_000
_RESULTS = {"customer-totals": "order-totals", "enriched-orders": "enriched-orders"}


def reprocess(scene: Scene) -> tuple[dict[str, bool], dict[str, Any]]:
    """The two hours that have orders; each hour's results are compared with the truth of that hour's orders alone."""
    teller, airflow, generator = scene.teller, scene.airflow, scene.generator
    with teller.phase("savepoint", f"{_ORDERS:,} orders of two hours, and a savepoint with them"):
        scene.feed(_ORDERS)
        scene.savepoint()
        before = (scene.output_ends(), str(scene.recovery.application.status()))
    first = generator.world.start_ms // HOUR_MS * HOUR_MS
    hours = [Interval(start=first + number * HOUR_MS, end=first + (number + 1) * HOUR_MS) for number in range(2)]
    with teller.phase("backfill", f"The reprocess DAG for both hours: airflow backfill create --dag-id {REPROCESS}"):
        start, end = (datetime.fromtimestamp(at / 1000, UTC).isoformat() for at in (hours[0].start, hours[1].start))
        airflow.backfill(REPROCESS, start, end, conf={"reason": "demonstration"}, max_active_runs=2)
        runs = airflow.runs(REPROCESS, "backfill")
        for run_id in runs.values():
            scene.await_run(REPROCESS, run_id)
    wrong: dict[str, int] = {}
    with teller.phase("compare", "The results of each hour"):
        counted = []
        for hour in hours:
            orders = [number for number in range(generator.sent) if generator.world.timestamp(number) in hour]
            expected = truth(generator.world, orders)
            counted.append(len(orders))
            for output, store in _RESULTS.items():
                found = _newest(scene, f"reprocess.{output}-{hour.name}", hour)
                keys = {*found, *expected[store]}
                wrong[f"{output} {hour.name}"] = sum(1 for key in keys if found.get(key) != expected[store].get(key))
        teller.say(f"keys that differ from the truth of the hour: {wrong}")
        untouched = (scene.output_ends(), str(scene.recovery.application.status())) == before
    with teller.phase("production", "The application meanwhile"):
        now = scene.wrong()
    checks = {
        "results_equal": right(wrong) and all(counted),
        "one_run_an_hour": len(runs) == len(hours),
        "application_untouched": untouched,
        "state_equal": right(now),
    }
    return checks, {"orders_by_hour": counted}


def _newest(scene: Scene, topic: str, hour: Interval) -> dict[str, Any]:
    """The newest result of each key among those of the hour."""
    records = (one for one in records_of(scene.stack.bootstrap, topic) if one.timestamp()[1] in hour)
    return {(one.key() or b"").decode(): json.loads(one.value() or b"null") for one in records}
