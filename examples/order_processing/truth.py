"""What every store must hold after a set of orders, computed without asking the application, in the shape its HTTP interface answers in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from examples.order_processing.orders import World

MINUTE_MS = 60_000
SESSION_GAP_MS = 5 * MINUTE_MS
Stores = dict[str, dict[str, Any]]


def truth(world: World, orders: Iterable[int]) -> Stores:
    """Every queryable store after these orders (numbers, ascending)."""
    totals: dict[str, dict[str, int]] = {}
    regions: dict[str, dict[str, int]] = {}
    products: dict[str, dict[str, int]] = {}
    latest: dict[str, dict[str, object]] = {}
    minutes: dict[str, int] = {}
    sessions: dict[str, list[list[int]]] = {}
    for number in orders:
        customer, order, at = world.customer(number), world.order(number), world.timestamp(number)
        region = world.region(int(customer.removeprefix("c-")))
        for store, key in ((totals, customer), (regions, region), (products, str(order["product"]))):
            _add(store, key, order)
        latest[customer] = order
        window = f"{customer}@{at - at % MINUTE_MS}"
        minutes[window] = minutes.get(window, 0) + 1
        _extend(sessions.setdefault(customer, []), at)
    return {
        "order-totals": totals,
        "region-totals": regions,
        "product-sales": products,
        "latest-orders": latest,
        "order-versions": latest,
        "enriched-orders": {key: order | world.product(int(str(order["product"])[2:])) for key, order in latest.items()},
        "orders-per-minute": minutes,
        "order-sessions": {f"{key}@{start}-{end}": count for key, found in sessions.items() for start, end, count in found},
    }


def _add(store: dict[str, dict[str, int]], key: str, order: dict[str, object]) -> None:
    known = store.setdefault(key, {"count": 0, "cents": 0})
    known["count"] += 1
    known["cents"] += int(str(order["cents"]))


def _extend(sessions: list[list[int]], at: int) -> None:
    # Orders come in event-time order here, so only the newest session can grow.
    if sessions and at - sessions[-1][1] <= SESSION_GAP_MS:
        sessions[-1][1] = at
        sessions[-1][2] += 1
    else:
        sessions.append([at, at, 1])
