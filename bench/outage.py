"""How long an application with little state is down while it is restored: from the stop to the start, by its steps.

    PYTHONPATH=plugins:. .venv/bin/python bench/outage.py [--orders 1500] [--times 3]

The example application with all of its stores loses everything and is restored by the steps that the command line takes. Prints for each restore the
seconds of each step, their sum from the stop to the start, and how many records were loaded. It asserts nothing about time.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.restore_time import Stage, stage
from embedded.demo.checks import differences, wait_counted
from embedded.demo.disaster import destroy
from examples.order_processing.truth import truth
from streams_recovery.cli import runs
from streams_recovery.cli.context import Requester
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.operations.restore.strategies import FromSavepoint
from streams_recovery.operations.savepoint import SavepointRequest

CUSTOMERS = 300


def outage(on: Stage) -> tuple[list[tuple[str, float]], int]:
    """Lose everything and bring it back: each step that was told with its seconds, from the approval to the start, and the records loaded."""
    destroy(on.recovery)
    told: list[tuple[str, float]] = []

    def tell(step: str) -> None:
        told.append((step, time.monotonic()))
        print(step)  # noqa: T201

    def approve(_: RestorePlan) -> bool:
        tell("approved")
        return True

    say: Callable[[str], None] = tell
    runner = replace(on.runner, say=say)
    request = FromSavepoint(reason="benchmark")
    report = runs.restore_in_place(runner, request, Requester(run_id=uuid.uuid4().hex, requested_by="benchmark"), approve=approve)
    wrong = differences(on.recovery, truth(on.generator.world, range(on.generator.sent)))
    if any(wrong.values()):
        raise SystemExit(f"the restored state is wrong, so its time means nothing: {wrong}")
    steps = [(step, at - before) for (_, before), (step, at) in itertools.pairwise(told)]
    until = next(number for number, (step, _) in enumerate(steps) if step.startswith("started "))
    return steps[: until + 1], report.rows


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=1_500)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    table = Table("restore", "step", "seconds")
    with tempfile.TemporaryDirectory(prefix="outage-") as directory, stage(Path(directory), CUSTOMERS) as on:
        on.generator.feed(arguments.orders)
        wait_counted(on.recovery, arguments.orders, seconds=300)
        runs.backup(on.runner, SavepointRequest(run_id=uuid.uuid4().hex, requested_by="benchmark", reason="", mode=None))
        for number in range(1, arguments.times + 1):
            steps, rows = outage(on)
            for step, seconds in steps:
                table.add_row(str(number), step, f"{seconds:.1f}")
            total = sum(seconds for step, seconds in steps if not step.startswith("restore "))
            table.add_row(str(number), f"down for, with {rows:,} records", f"{total:.1f}", end_section=True)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
