"""State from input: rebuilt with nothing kept, and an application that is only run now and then."""

from __future__ import annotations

from typing import Any

from embedded.demo.scene import Scene, right
from embedded.stack import APPLICATION
from streams_recovery.application.port import InstanceState
from streams_recovery.core.names import internal_role

REBUILD, RUN = "streams_restore_rebuild", f"streams_run_{APPLICATION}"
_ORDERS, _MORE = 5_000, 2_000


def rebuild(scene: Scene) -> tuple[dict[str, bool], dict[str, Any]]:
    """All internal topics go; the application counts everything again from its input."""
    recovery, teller = scene.recovery, scene.teller
    with teller.phase("orders", f"{_ORDERS:,} orders, counted once, and a savepoint: it knows which topics are the application's"):
        scene.feed(_ORDERS)
        scene.savepoint()
        before = _internal_ids(scene)
    with teller.phase("rebuild", "The rebuild DAG: plan, approval, everything deleted, counted again"):
        requested = {"application": APPLICATION, "replace": True, "confirm": recovery.application_id}
        run_id = scene.run(REBUILD, requested)
        cleared = scene.airflow.result(REBUILD, run_id, "verify_cleared")["gone"]
        after = _internal_ids(scene)
        rebuilt = scene.wrong()
    with teller.phase("continue", f"{_MORE:,} more orders: does it go on counting correctly?"):
        scene.feed(_MORE)
        continued = scene.wrong()
    checks = {
        "state_equal": right(rebuilt),
        "everything_was_deleted": set(cleared) == before.keys() and not set(before.values()) & set(after.values()),
        "continued_correctly": right(continued),
    }
    return checks, {"topics_deleted": len(cleared), "orders": scene.generator.acknowledged}


def run(scene: Scene) -> tuple[dict[str, bool], dict[str, Any]]:
    """An application that is down most of the time: brought up for what came in meanwhile, and down again."""
    recovery, teller, airflow = scene.recovery, scene.teller, scene.airflow
    with teller.phase("down", f"The application is down; {_ORDERS:,} orders come in"):
        recovery.application.stop(timeout=60)
        scene.generator.feed(_ORDERS)
    with teller.phase("increment", "The run DAG: up, to the ends of the input, down"):
        ran = airflow.result(RUN, scene.run(RUN, {}), "stop_application")
        down = {status.state for status in recovery.application.status()} == {InstanceState.GONE}
    with teller.phase("nothing_new", "The run DAG again: nothing came in"):
        idle = airflow.result(RUN, scene.run(RUN, {}), "start_application")
    with teller.phase("continue", "Up for good: is everything counted once?"):
        recovery.application.start()
        scene.await_running()
        scene.await_counted()
        counted = scene.wrong()
    processed = sum(count for name, count in ran["processed"].items() if name.rpartition("-")[0] == "orders")
    checks = {
        "stopped_at_ends": ran["behind"] == {} and down,
        "processed_what_came_in": processed >= _ORDERS,
        "nothing_started_for_nothing": idle["instances"] == [],
        "state_equal": right(counted),
    }
    return checks, {"records_processed": processed}


def _internal_ids(scene: Scene) -> dict[str, str]:
    cluster = scene.recovery.cluster
    names = [name for name in cluster.topic_names() if internal_role(name, scene.recovery.application_id)]
    return {name: found.topic_id for name, found in cluster.describe_topics(names).items()}
