"""What every store must hold after a set of orders, in the shape its HTTP interface answers in, and every result that they cause. Computed without asking
the application.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from examples.order_processing.orders import World

MINUTE_MS = 60_000
SESSION_GAP_MS = 5 * MINUTE_MS
FINAL_MS = 10 * MINUTE_MS
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


class Result(NamedTuple):
    """A record of an output. ``value`` is its text, that of JSON with sorted keys."""

    key: str
    value: str


# By result, whether it must be there; else it may be. None may be there twice.
Results = dict[Result, bool]


def result(key: str, value: Any) -> Result:
    """From a value as JSON has it."""
    return Result(key, json.dumps(value, sort_keys=True))


def results(world: World, orders: Iterable[int], partition: Callable[[str], int]) -> dict[str, Results]:
    """The results of these orders (numbers, ascending), by output. ``partition`` has that of a customer's orders, on whose time it depends which windows are
    over. A join drops its answer for an order that another one has followed, so only that for a customer's last order must be there.
    """
    totals: dict[str, dict[str, int]] = {}
    last: dict[str, Result] = {}
    windows: dict[tuple[str, int], int] = {}
    newest: dict[int, int] = {}
    found: dict[str, Results] = {"customer-totals": {}, "enriched-orders": {}, "order-counts-final": {}}
    for number in orders:
        customer, order, at = world.customer(number), world.order(number), world.timestamp(number)
        _add(totals, customer, order)
        found["customer-totals"][result(customer, totals[customer])] = True
        last[customer] = result(customer, order | world.product(int(str(order["product"])[2:])))
        found["enriched-orders"][last[customer]] = False
        window = (customer, at - at % FINAL_MS)
        windows[window] = windows.get(window, 0) + 1
        newest[partition(customer)] = at
    found["enriched-orders"].update(dict.fromkeys(last.values(), True))
    over = {key: count for key, count in windows.items() if key[1] + FINAL_MS <= newest[partition(key[0])]}
    found["order-counts-final"] = {result(f"{customer}@{start}", count): True for (customer, start), count in over.items()}
    return found


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
