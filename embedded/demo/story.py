"""The stage is set, one strategy after the other is played on it, and it is cleared."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedded.airflow import Airflow
from embedded.applications import NEXT, PAST, Applications
from embedded.demo.building import rebuild, run
from embedded.demo.checks import nothing_in_clear
from embedded.demo.cloning import clone
from embedded.demo.full import full
from embedded.demo.history import HOUR_MS, reprocess
from embedded.demo.moment import pitr
from embedded.demo.scene import Scene, opened
from embedded.demo.telling import Report, Teller
from embedded.demo.undo import undo
from embedded.processes import Processes
from embedded.spark_cluster import WORKERS, SparkCluster
from embedded.stack import CONFIGURATIONS, Ports, Stack
from embedded.stores import FILES, store
from examples.order_processing.generator import Generator, create_topics
from examples.order_processing.orders import World
from streams_recovery.core.kafka_types import Guarantee
from streams_recovery.operations.context import RecoveryContext

Strategy = Callable[[Scene], tuple[dict[str, bool], dict[str, Any]]]
# In the order in which they are played on one stack: the one with many orders comes last.
STRATEGIES: dict[str, Strategy] = {
    "reprocess": reprocess,
    "rebuild": rebuild,
    "run": run,
    "pitr": pitr,
    "clone": clone,
    "undo": undo,
    "full": full,
}
_ORDERS_A_CUSTOMER = 20
_OF_SEVERAL = {"pitr", "clone", "reprocess"}
# Orders of 25 ms each at 800 a second are twenty times as fast as the clock, and a broker refuses timestamps more than an hour ahead: a slow machine may
# take half an hour over its savepoints. Windows are kept for two days. The first orders are the last of an hour.
_PAST_MS, _OF_FIRST_HOUR_MS = 12 * HOUR_MS, 90_000


def play(
    directory: Path,
    guarantee: str,
    strategies: Sequence[str],
    teller: Teller,
    *,
    orders: int,
    cluster: bool = False,
    storage: str = FILES,
    encrypted: bool = False,
) -> list[Report]:
    """Set the stage in ``directory``, play, clean up; ``orders`` are those of the main story. Spark is a ``cluster`` of this machine, or local, and
    ``storage`` one of the kinds of stores. With ``encrypted`` no record is stored in clear. Raises what goes wrong; the reports tell of checks that did not
    hold.
    """
    spark = SparkCluster.of(directory / "spark") if cluster else None
    several = Applications(directory=directory, ports=Ports.free(), guarantee=guarantee, spark=spark)
    # What others do before has records in the logs that no transaction has written.
    by_names = guarantee == Guarantee.EXACTLY_ONCE_V2 and [*strategies] == ["full"]
    alone = Stack(directory=directory, ports=several.ports, guarantee=guarantee, spark=spark, by_names=by_names)
    # A killed run leaves its instances running: they are known by the directory about to be emptied. Its configuration may be one of an earlier version.
    shutil.rmtree(directory / CONFIGURATIONS, ignore_errors=True)
    several.stop_application()
    for name in ("broker", "airflow", "application", "drill", "reprocess", "repository", "store", "state", CONFIGURATIONS, PAST, NEXT):
        shutil.rmtree(directory / name, ignore_errors=True)
    with store(storage, directory / "store") as kept, Processes(directory / "processes") as processes:
        stack = replace(several if _OF_SEVERAL & set(strategies) else alone, store=kept, encrypted=encrypted)
        with opened(stack) as recovery:
            try:
                scene = _set(stack, processes, recovery, teller, orders)
                return [_played(name, scene) for name in STRATEGIES if name in strategies]
            finally:
                stack.stop_application()


def _set(stack: Stack, processes: Processes, recovery: RecoveryContext, teller: Teller, orders: int) -> Scene:
    start_ms = (time.time_ns() // 1_000_000 - _PAST_MS) // HOUR_MS * HOUR_MS - _OF_FIRST_HOUR_MS
    world = World(seed=7, customers=orders // _ORDERS_A_CUSTOMER, products=200, start_ms=start_ms, step_ms=25)
    with teller.phase("set_up", "Kafka, the application with two instances, Airflow"):
        stack.start_broker(processes)
        if stack.spark is not None:
            stack.spark.start(processes)
            teller.say(f"Spark's master at {stack.spark.url}, {WORKERS} workers")
        create_topics(stack.bootstrap)
        generator = Generator(stack.bootstrap, world)
        generator.feed_reference_data()
        recovery.application.start()
        airflow = Airflow(stack, processes)
        scene = Scene(
            stack=stack,
            recovery=recovery,
            airflow=airflow.start(),
            generator=generator,
            teller=teller,
            orders=orders,
            processes=processes,
        )
        scene.await_running()
        teller.say(f"Airflow at {airflow.url}")
    return scene


def _played(name: str, scene: Scene) -> Report:
    checks, figures = STRATEGIES[name](scene)
    if scene.stack.encrypted:
        checks = {**checks, "nothing_in_clear": nothing_in_clear(scene.recovery)}
    report = Report(strategy=name, guarantee=scene.stack.guarantee, checks=checks, figures=figures, phases=scene.teller.take_phases())
    scene.teller.summary(report)
    return report
