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
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.operations.context import RecoveryContext, open_context

CLONE = "streams_clone"
_ORDERS, _TRICKLE_RATE = 3_000, 60.0


def clone(scene: Scene) -> tuple[dict[str, bool], dict[str, Any]]:
    """The old application and the new one change places twice; no order is lost or counted twice in either."""
    recovery, teller, airflow = scene.recovery, scene.teller, scene.airflow
    with teller.phase("savepoint", f"{_ORDERS:,} orders and a savepoint"):
        scene.feed(_ORDERS)
        scene.savepoint()
    with teller.phase("clone", f"The clone DAG: {NEXT} gets the state of {APPLICATION}, which runs on"):
        _step(scene, "clone")
        beside = (_runs(recovery), _next_runs(scene))
    with teller.phase("cut_over", f"Cut over to {NEXT} while orders come in"):
        cut = airflow.result(CLONE, _step(scene, "cut_over"), "cut_over.finish")
        over = (_runs(recovery), _next_runs(scene))
        with _next(scene) as other:
            wait_counted(other, scene.generator.acknowledged, seconds=180)
            wrong = differences(other, truth(scene.generator.world, range(scene.generator.sent)))
        teller.say(f"keys of {NEXT} that differ from the truth, by store: {wrong}")
        ahead, behind = cut["offsets"][recovery.application_id], cut["offsets"][NEXT]
    with teller.phase("roll_back", "And back"):
        back = airflow.result(CLONE, _step(scene, "roll_back"), "cut_over.finish")
        returned = (_runs(recovery), _next_runs(scene))
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
def _next(scene: Scene) -> Iterator[RecoveryContext]:
    stack = scene.several()
    with open_context(stack.named(NEXT), EnvironmentConnections({**os.environ, **stack.variables})) as recovery:
        yield recovery


def _next_runs(scene: Scene) -> bool:
    with _next(scene) as recovery:
        return _runs(recovery)


def _runs(recovery: RecoveryContext) -> bool:
    return all(status.state is InstanceState.RUNNING for status in recovery.application.status())
