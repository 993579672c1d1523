"""Comparing what the application answers with the truth, and waiting until it has had the time to know it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from examples.order_processing.orders import World
from examples.order_processing.truth import Stores
from streams_recovery.core.errors import ApplicationNotReady
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.repository.encryption import named_key
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.proofs import Proof
from streams_recovery.operations.context import RecoveryContext

# Results of a foreign-key join come back through two repartition topics after the order itself was counted.
_SETTLE_SECONDS = 60.0


def wait_counted(recovery: RecoveryContext, orders: int, *, seconds: float) -> None:
    """Wait until the application has counted this many orders, by its own totals."""
    deadline = time.monotonic() + seconds
    counted = -1
    while time.monotonic() < deadline:
        counted = sum(_number(total, "count") for total in recovery.application.query("order-totals").values())
        if counted >= orders:
            return
        time.sleep(1)
    raise ApplicationNotReady(f"{counted} of {orders} orders were counted in {seconds:.0f} s", next_step="see the application's logs")


def differences(recovery: RecoveryContext, expected: Stores, *, settle_seconds: float = _SETTLE_SECONDS) -> dict[str, int]:
    """For every store the number of keys that are missing, extra or different; joins get a moment to settle. Raises nothing: counts."""
    deadline = time.monotonic() + settle_seconds
    found = _differences(recovery, expected)
    while any(found.values()) and time.monotonic() < deadline:
        time.sleep(2)
        found = _differences(recovery, expected)
    return found


def _differences(recovery: RecoveryContext, expected: Stores) -> dict[str, int]:
    result = {}
    for store, truth in expected.items():
        answer = recovery.application.query(store)
        result[store] = sum(1 for key in {*answer, *truth} if key not in answer or key not in truth or answer[key] != truth[key])
    return result


def all_proven(manifest: Manifest, verified: Mapping[str, Any]) -> bool:
    """Return True if every partition of every changelog has a proof: rows or keys over more than none, or empty on both sides."""
    wanted = {
        (topic.name, part.partition): part.rows
        for topic in manifest.topics
        if topic.role is TopicRole.CHANGELOG
        for part in topic.partitions
    }
    proofs = {(one["topic"], one["partition"]): one for one in verified["partitions"]}
    return any(wanted.values()) and all(_proven(proofs.get(partition), rows) for partition, rows in wanted.items())


def _proven(found: Mapping[str, Any] | None, rows: int) -> bool:
    if found is None or found["rows"] != rows or found["archived_digest"] != found["restored_digest"]:
        return False
    return found["proof"] in ((Proof.ROWS, Proof.KEYS) if rows else (Proof.EMPTY,))


def newest_recovered_ms(recovery: RecoveryContext, world: World) -> int:
    """Event time of the newest order that the application's state knows of."""
    return world.timestamp(max(_number(order, "order") for order in recovery.application.query("latest-orders").values()))


def _number(value: Any, name: str) -> int:
    return int(value[name])


def nothing_in_clear(recovery: RecoveryContext) -> bool:
    """True if there are segments, each is encrypted by its name and by its first bytes, and every key of them can be unwrapped."""
    keys = list(recovery.repository.keys(recovery.layout.segments))
    keyring = recovery.repository.keyring
    if keyring is None or keyring.state(recovery.application_id).problems:
        return False
    return bool(keys) and all(named_key(key) is not None and recovery.repository.open(key).read(4) == b"PARE" for key in keys)
