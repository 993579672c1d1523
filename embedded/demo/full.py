"""Full state: everything is lost, and comes back from a savepoint. And once more, with the whole cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from embedded.demo.checks import all_proven, newest_recovered_ms
from embedded.demo.disaster import destroy, destroy_cluster
from embedded.demo.outputs import offsets_of, outputs_right, records_of
from embedded.demo.scene import Scene, opened, right
from embedded.spark_cluster import WORKERS
from embedded.stack import APPLICATION
from examples.order_processing.generator import Generator
from examples.order_processing.truth import truth
from streams_recovery.core.kafka_types import StoreKind, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.outputs_behind import listed_behind

RESTORE = "streams_restore_full"
# Before the first savepoint, before the second, before the disaster, and after what came back.
_SHARES = (0.3, 0.15, 0.15, 0.4)
_TRICKLE_RATE = 800.0


def full(scene: Scene) -> tuple[dict[str, bool], dict[str, Any]]:
    """Play it and return checks and figures."""
    recovery, generator, teller = scene.recovery, scene.generator, scene.teller
    feeds = [round(scene.orders * share) for share in _SHARES]
    with teller.phase("first_savepoint", f"{feeds[0]:,} orders, then a savepoint while more come in"):
        scene.feed(feeds[0])
        first = _savepoint_under_load(scene)
    with teller.phase("second_savepoint", f"{feeds[1]:,} more orders, then an incremental savepoint"):
        scene.feed(feeds[1])
        second = _savepoint_under_load(scene)
        manifest = recovery.savepoints.read(second["savepoint_id"])
        incremental = _incremental(recovery, recovery.savepoints.read(first["savepoint_id"]), second)
    with teller.phase("disaster", f"{feeds[2]:,} more orders, then everything is lost"):
        scene.feed(feeds[2])
        newest_before, lost_at = generator.newest_acknowledged_ms or 0, time.monotonic()
        teller.say(f"deleted {len(destroy(recovery))} internal topics, the consumer group and all local state")
    with teller.phase("restore", "The restore DAG: plan, approval, load, verify, offsets, wipe, start"):
        run_id, recovered_at = _restored(scene, second["savepoint_id"])
        verified = scene.airflow.result(RESTORE, run_id, "verify_changelogs")
        loaded = scene.airflow.result(RESTORE, run_id, "check_load")
        offsets = scene.airflow.result(RESTORE, run_id, "reset_consumer_group")
    with teller.phase("recovered", "What came back"):
        scene.await_counted()
        recovered = scene.wrong()
        rpo = (newest_before - newest_recovered_ms(recovery, generator.world)) / 1000
    named: dict[str, bool] = {}
    with ExitStack() as later:
        if scene.stack.by_names:
            named = {"held_nothing": _held_nothing([first, second]), **_each_result_once(scene, run_id)}
            scene = later.enter_context(_new_cluster(scene, second["savepoint_id"]))
        with teller.phase("continue", f"{feeds[3]:,} more orders: does it go on counting correctly?"):
            scene.feed(feeds[3])
            continued = scene.wrong()
            if named:
                teller.say("outputs of the new cluster, record by record:")
                named["outputs_right_after_loss_of_cluster"] = outputs_right(scene)
    generator = scene.generator
    keys = sum(len(keys) for keys in truth(generator.world, range(generator.sent)).values())
    checks = {
        **named,
        "state_equal": right(recovered),
        "changelogs_equal": all_proven(manifest, verified),
        "incremental": incremental,
        "tail_and_suppress_covered": _covered(manifest, verified),
        "offset_metadata_equal": offsets["with_metadata"] == sum(1 for c in manifest.committed().values() if c.metadata) > 0,
        "continued_correctly": right(continued),
        **({} if scene.stack.spark is None else {"every_worker_loaded": len(loaded["workers"]) == WORKERS}),
    }
    figures = {
        "savepoints": [first["savepoint_id"], second["savepoint_id"]],
        "records_copied": [first["new_records"], second["new_records"]],
        "rows_compared": verified["rows_compared"],
        # Processes of Spark that tasks ran in.
        "executors": len(loaded["workers"]),
        "keys_compared": keys,
        # The newest input that Kafka acknowledged before the disaster, minus the newest that the recovered state knows.
        "rpo_seconds": rpo,
        # From the disaster until the application was RUNNING and had caught up.
        "rto_seconds": round(recovered_at - lost_at, 1),
    }
    return checks, figures


def _restored(scene: Scene, savepoint_id: str) -> tuple[str, float]:
    """The run that restored it, and when the application had recovered. What the run reports after that keeps nobody waiting."""
    recovered: list[float] = []

    def heard(task: str, state: str) -> None:
        if (task, state) == ("await_recovered", "success"):
            recovered.append(time.monotonic())

    return scene.run(RESTORE, {"application": APPLICATION, "savepoint": savepoint_id}, heard=heard), recovered[0]


def _held_nothing(savepoints: Sequence[Mapping[str, Any]]) -> bool:
    return all("left_out" in one and one["held_seconds"] == 0 for one in savepoints)


def _each_result_once(scene: Scene, run_id: str) -> dict[str, bool]:
    """Outputs have stayed, so results behind the savepoint are there twice. A reader that skips what the restore has listed sees each once."""
    with scene.teller.phase("outputs", "The outputs, record by record, without what the restore has listed in outputs-behind.json"):
        restored = scene.airflow.result(RESTORE, run_id, "finish")["restore_id"]
        skip = offsets_of(listed_behind(scene.recovery, restored))
        scene.teller.say(f"{len(skip):,} offsets are listed")
        return {"outputs_behind_listed": bool(skip), "outputs_right_without_listed": outputs_right(scene, skip=skip)}


@contextmanager
def _new_cluster(scene: Scene, savepoint_id: str) -> Iterator[Scene]:
    """The scene at an empty cluster in place of the old one, with what a savepoint has of the application, and the orders that it lacks."""
    teller, bootstrap, sent = scene.teller, scene.stack.bootstrap, scene.generator.sent
    with teller.phase("cluster_lost", "The whole cluster is lost, inputs and outputs too, and an empty one is there"):
        destroy_cluster(scene.stack, scene.processes, scene.recovery)
    with opened(scene.stack) as recovery:
        found = replace(scene, recovery=recovery, generator=Generator(bootstrap, scene.generator.world))
        with teller.phase("new_cluster", "The restore DAG again; who sent the orders sends those again that came after the savepoint"):
            scene.run(RESTORE, {"application": APPLICATION, "savepoint": savepoint_id})
            there = {json.loads(one.value() or b"")["order"] for one in records_of(bootstrap, "orders")}
            teller.say(f"{len(there):,} orders came back, {sent - len(there):,} are sent again")
            found.generator.go_on(sent, there)
            found.await_counted()
        yield found


def _savepoint_under_load(scene: Scene) -> dict[str, Any]:
    # A savepoint of an idle application would prove little. What came in all the while the copy takes would only make the next copy longer, most
    # of all on a slow machine.
    with scene.generator.trickle(_TRICKLE_RATE) as end:
        return scene.savepoint(heard=lambda task, state: end() if (task, state) == ("resume", "success") else None)


def _incremental(recovery: RecoveryContext, first: Manifest, second: dict[str, Any]) -> bool:
    """Nothing below the first savepoint's ends was fetched again: what was fetched fits between them and the logs' ends now."""
    before = {
        TopicPartition(topic.name, part.partition): part.end if topic.role is TopicRole.CHANGELOG else part.log_start
        for topic in first.topics
        if topic.archived
        for part in topic.partitions
    }
    ends = recovery.cluster.high_watermarks(list(before))
    new = sum(ends[tp] - end for tp, end in before.items() if tp in ends)
    return bool(second["parent_id"] == first.savepoint_id and 0 < second["fetched"] <= new)


def _covered(manifest: Manifest, verified: dict[str, Any]) -> bool:
    tail = sum(topic.rows for topic in manifest.topics if topic.role is TopicRole.REPARTITION)
    suppress = {topic.name for topic in manifest.topics if topic.store is StoreKind.SUPPRESS}
    buffered = sum(proof["rows"] for proof in verified["partitions"] if proof["topic"] in suppress)
    return tail > 0 and buffered > 0
