"""Comparing what the application answers with the truth, and waiting until it has had the time to know it."""

from __future__ import annotations

import time
from typing import Any

from examples.order_processing.orders import World
from examples.order_processing.truth import Stores
from streams_recovery.core.errors import ApplicationNotReady
from streams_recovery.workbench import Workbench

# Results of a foreign-key join come back through two repartition topics after the order itself was counted.
_SETTLE_SECONDS = 60.0


def wait_counted(bench: Workbench, orders: int, *, seconds: float) -> None:
    """Wait until the application has counted this many orders, by its own totals."""
    deadline = time.monotonic() + seconds
    counted = -1
    while time.monotonic() < deadline:
        counted = sum(_number(total, "count") for total in bench.application.query("order-totals").values())
        if counted >= orders:
            return
        time.sleep(1)
    raise ApplicationNotReady(f"{counted} of {orders} orders were counted in {seconds:.0f} s", next_step="see the application's logs")


def differences(bench: Workbench, expected: Stores, *, settle_seconds: float = _SETTLE_SECONDS) -> dict[str, int]:
    """For every store the number of keys that are missing, extra or different; joins get a moment to settle. Raises nothing: counts."""
    deadline = time.monotonic() + settle_seconds
    found = _differences(bench, expected)
    while any(found.values()) and time.monotonic() < deadline:
        time.sleep(2)
        found = _differences(bench, expected)
    return found


def _differences(bench: Workbench, expected: Stores) -> dict[str, int]:
    result = {}
    for store, truth in expected.items():
        answer = bench.application.query(store)
        result[store] = sum(1 for key in {*answer, *truth} if key not in answer or key not in truth or answer[key] != truth[key])
    return result


def newest_recovered_ms(bench: Workbench, world: World) -> int:
    """Event time of the newest order that the application's state knows of."""
    return world.timestamp(max(_number(order, "order") for order in bench.application.query("latest-orders").values()))


def _number(value: Any, name: str) -> int:
    return int(value[name])
