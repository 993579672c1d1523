"""A new version beside the old one: it takes over while orders come in, and gives back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from embedded.applications import NEXT
from embedded.demo.checks import differences, wait_counted
from embedded.demo.scene import Scene, right
from embedded.stack import APPLICATION
from examples.order_processing.truth import truth
from streams_recovery.application.port import InstanceState
from streams_recovery.cli.connections import EnvironmentConnections
from streams_recovery.operations.context import Workbench, open_workbench

CLONE = "streams_clone"
_ORDERS, _TRICKLE_RATE = 3_000, 60.0


def clone(scene: Scene) -> tuple[dict[str, bool], dict[str, Any]]:
    """The old application and the new one change places twice; no order is lost or counted twice in either."""
    bench, teller, airflow = scene.bench, scene.teller, scene.airflow
    with teller.phase("savepoint", f"{_ORDERS:,} orders and a savepoint"):
        scene.feed(_ORDERS)
        scene.savepoint()
    with teller.phase("clone", f"The clone DAG: {NEXT} gets the state of {APPLICATION}, which runs on"):
        _step(scene, "clone")
        beside = (_runs(bench), _next_runs(scene))
    with teller.phase("cut_over", f"Cut over to {NEXT} while orders come in"):
        cut = airflow.result(CLONE, _step(scene, "cut_over"), "switch.finish")
        over = (_runs(bench), _next_runs(scene))
        with _next(scene) as other:
            wait_counted(other, scene.generator.acknowledged, seconds=180)
            wrong = differences(other, truth(scene.generator.world, range(scene.generator.sent)))
        teller.say(f"keys of {NEXT} that differ from the truth, by store: {wrong}")
        ahead, behind = cut["offsets"][bench.application_id], cut["offsets"][NEXT]
    with teller.phase("roll_back", "And back"):
        back = airflow.result(CLONE, _step(scene, "roll_back"), "switch.finish")
        returned = (_runs(bench), _next_runs(scene))
        scene.await_running()
        scene.await_counted()
        again = scene.wrong()
    checks = {
        "ran_beside_each_other": beside == (True, True),
        "took_over": over == (False, True),
        "nothing_missing": all(offset <= ahead[name] for name, offset in behind.items()) and bool(behind),
        "clone_state_equal": right(wrong),
        "gave_back": returned == (True, False),
        "state_equal": right(again),
    }
    return checks, {"results_twice_by_cut_over": cut["records_again"], "results_twice_by_roll_back": back["records_again"]}


def _step(scene: Scene, step: str) -> str:
    with scene.generator.trickle(_TRICKLE_RATE):
        return scene.run(CLONE, {"application": NEXT, "step": step})


@contextmanager
def _next(scene: Scene) -> Iterator[Workbench]:
    stack = scene.several()
    with open_workbench(stack.named(NEXT), EnvironmentConnections({**os.environ, **stack.variables})) as bench:
        yield bench


def _next_runs(scene: Scene) -> bool:
    with _next(scene) as bench:
        return _runs(bench)


def _runs(bench: Workbench) -> bool:
    return all(status.state is InstanceState.RUNNING for status in bench.application.status())
