"""How long a restore takes from the full log and from the newest record of each key, with ten updates a key: both in one run, on one stack.

    PYTHONPATH=plugins:. .venv/bin/python bench/restore_time.py [--keys 20000] [--updates 10]

Prints a row for each and their ratio. Figures depend on the machine; the ratio is what to look at. It asserts nothing about time.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from embedded.demo.checks import differences, wait_counted
from embedded.demo.disaster import destroy
from embedded.processes import Processes
from embedded.stack import Ports, Stack
from examples.order_processing.generator import Generator, create_topics
from examples.order_processing.orders import World
from examples.order_processing.truth import truth
from streams_recovery.cli import runs
from streams_recovery.cli.context import EnvironmentConnections, Requester
from streams_recovery.cli.runner import Runner
from streams_recovery.engine.submitter import SparkSubmit
from streams_recovery.operations.compaction import CompactRequest, How
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.restore.strategies import FromSavepoint
from streams_recovery.operations.savepoint import SavepointRequest

STEP_MS, PAST_MS = 20, 12 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """An application with its input, and what runs jobs for it."""

    recovery: RecoveryContext
    generator: Generator
    runner: Runner


@contextmanager
def stage(directory: Path, keys: int, *, past_ms: int = PAST_MS, step_ms: int = STEP_MS, partitions: int = 4) -> Iterator[Stage]:
    """Kafka and the application, gone at the end. Orders begin ``past_ms`` ago, ``step_ms`` apart; ``partitions`` are those of each topic."""
    stack = Stack(directory=directory, ports=Ports.free(), guarantee="exactly_once_v2")
    world = World(seed=5, customers=keys, products=50, start_ms=time.time_ns() // 1_000_000 - past_ms, step_ms=step_ms)
    connections = EnvironmentConnections({**os.environ, **stack.variables})
    with Processes(directory / "processes") as processes, open_context(stack.config(), connections) as recovery:
        stack.start_broker(processes)
        create_topics(stack.bootstrap, partitions=partitions)
        generator = Generator(stack.bootstrap, world)
        generator.feed_reference_data()
        recovery.application.start()
        try:
            yield Stage(
                recovery=recovery,
                generator=generator,
                runner=Runner(recovery=recovery, submitter=SparkSubmit(master="local[2]", logs=directory / "logs"), say=print),
            )
        finally:
            recovery.application.stop(timeout=30)


def restored(on: Stage, savepoint: str) -> tuple[int, float]:
    """Lose everything and bring it back: records written, and seconds until the application has caught up."""
    request = FromSavepoint(savepoint=savepoint, reason="benchmark")
    destroy(on.recovery)
    began = time.monotonic()
    report = runs.restore_in_place(on.runner, request, Requester(run_id=uuid.uuid4().hex, requested_by="benchmark"), approve=lambda _: True)
    seconds = time.monotonic() - began
    wrong = differences(on.recovery, truth(on.generator.world, range(on.generator.sent)))
    if any(wrong.values()):
        raise SystemExit(f"the restored state is wrong, so its time means nothing: {wrong}")
    return report.rows, seconds


def measure(on: Stage, orders: int) -> Table:
    """Both restores of the same state."""
    on.generator.feed(orders)
    wait_counted(on.recovery, orders, seconds=900)
    full = runs.backup(on.runner, SavepointRequest(run_id=uuid.uuid4().hex, requested_by="benchmark", reason="", mode=None)).savepoint_id
    compact = CompactRequest(savepoint="latest", how=How.LATEST_PER_KEY, run_id=uuid.uuid4().hex, requested_by="benchmark", reason="")
    compacted = runs.compact(on.runner, compact)
    if compacted is None:
        raise SystemExit("there was nothing to compact")
    found = {"full log": restored(on, full), "newest of each key": restored(on, compacted.savepoint_id)}
    table = Table("restored from", "records", "seconds", "ratio")
    slowest = found["full log"][1]
    for name, (rows, seconds) in found.items():
        table.add_row(name, f"{rows:,}", f"{seconds:.1f}", f"{seconds / slowest:.2f}")
    return table


def main() -> None:
    """Run it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--keys", type=int, default=20_000)
    arguments.add_argument("--updates", type=int, default=10)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="restore-time-") as directory, stage(Path(directory), asked.keys) as on:
        Console().print(measure(on, asked.keys * asked.updates))


if __name__ == "__main__":
    main()
