"""A restore that was a mistake, and the undo that brings back what was there."""

from __future__ import annotations

from typing import Any

from embedded.demo.full import RESTORE
from embedded.demo.scene import Scene, right
from embedded.stack import APPLICATION

UNDO = "streams_undo"
_ORDERS = 1_000


def undo(scene: Scene) -> tuple[dict[str, bool], dict[str, Any]]:
    """A restore with the wrong offsets loses orders, and its undo brings them back."""
    teller, chosen = scene.teller, {"application": APPLICATION, "confirm": scene.recovery.application_id}
    with teller.phase("savepoint", f"{_ORDERS:,} orders, a savepoint, and {_ORDERS:,} more"):
        scene.feed(_ORDERS)
        savepoint = scene.savepoint()["savepoint_id"]
        scene.feed(_ORDERS)
        before = scene.wrong()
    with teller.phase("mistake", "Somebody restores it and skips the input that came after it"):
        scene.run(RESTORE, {**chosen, "savepoint": savepoint, "offsets": "latest", "replace": True})
        lost = scene.wrong(settle_seconds=0)
    with teller.phase("undo", "The undo DAG brings back what was there"):
        scene.run(UNDO, chosen)
        undone = scene.wrong()
    with teller.phase("continue", f"{_ORDERS:,} more orders: does it go on counting correctly?"):
        scene.feed(_ORDERS)
        continued = scene.wrong()
    checks = {
        "mistake_lost_orders": right(before) and lost["order-totals"] > 0,
        "mistake_undone": right(undone),
        "continued_correctly": right(continued),
    }
    return checks, {"savepoint": savepoint, "keys_that_were_wrong": sum(lost.values()), "orders": scene.generator.acknowledged}
