"""How long a savepoint holds the example application, and what it does meanwhile: quiesce, capture, resume, of more than a hundred partitions.

    PYTHONPATH=plugins:. .venv/bin/python bench/hold_time.py [--partitions 7] [--times 5] [--profile]

Prints a row for each savepoint. Figures depend on the machine. It asserts nothing about time.
"""

from __future__ import annotations

import argparse
import cProfile
import itertools
import pstats
import tempfile
import time
import uuid
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from bench.restore_time import Stage, stage
from embedded.demo.checks import wait_counted
from streams_recovery.application.port import StreamsApplication
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.waiting import poll
from streams_recovery.operations import savepoint
from streams_recovery.operations.savepoint import SavepointRequest

CUSTOMERS, ORDERS, BURST = 300, 2_000, 1_000


class Noting:
    """The application, and when it was paused and resumed."""

    def __init__(self, application: StreamsApplication) -> None:
        self._application = application
        self.paused_at = self.resumed_at = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._application, name)

    def pause(self) -> None:
        """Note the time, and pause."""
        self.paused_at = time.monotonic()
        self._application.pause()

    def resume(self) -> None:
        """Resume, and note the time."""
        self._application.resume()
        self.resumed_at = time.monotonic()


def held(on: Stage) -> tuple[int, int, dict[str, float]]:
    """One savepoint without its copy: partitions, tails, and the seconds of each step that the application waited for. It does not wait for what
    comes before it is paused, and not for looking whether it stays resumed.
    """
    application = Noting(on.recovery.application)
    recovery = replace(on.recovery, application=cast("StreamsApplication", application))
    request = SavepointRequest(run_id=uuid.uuid4().hex, requested_by="bench", reason="", mode=QuiesceMode.PAUSE)
    ticket = savepoint.begin(recovery, request)
    try:
        # What the application has not read of it by then is in its repartition topics: these are the tails.
        on.generator.feed(BURST)
        moments: list[float] = []
        try:
            quiesced = savepoint.quiesce(recovery, ticket)
            moments += [application.paused_at, time.monotonic()]
            cut = savepoint.capture(recovery, ticket, quiesced)
            moments.append(time.monotonic())
        finally:
            savepoint.resume(recovery, ticket)
            moments.append(application.resumed_at)
    finally:
        savepoint.finish(recovery, ticket)
    steps = dict(zip(("quiesce", "capture", "resume"), (later - earlier for earlier, later in itertools.pairwise(moments)), strict=True))
    return cut.partitions, cut.tail_records, steps


def measure(on: Stage, times: int, *, profile: bool) -> Table:
    """So many savepoints, one after the other."""
    table = Table("partitions", "tail records", "quiesce s", "capture s", "resume s", "held s")
    poll(lambda: all(status.streams_state == "RUNNING" for status in on.recovery.application.status()) or None, seconds=180, interval=0.5)
    for _ in range(times):
        with cProfile.Profile() if profile else nullcontext() as profiler:
            partitions, tails, steps = held(on)
        if profiler is not None:
            pstats.Stats(profiler).sort_stats("cumulative").print_stats("streams_recovery|connect|recv", 70)
        table.add_row(str(partitions), str(tails), *(f"{seconds:.2f}" for seconds in steps.values()), f"{sum(steps.values()):.2f}")
        time.sleep(1)
    return table


def main() -> None:
    """Run it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--partitions", type=int, default=7)
    arguments.add_argument("--times", type=int, default=5)
    arguments.add_argument("--profile", action="store_true")
    asked = arguments.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="hold-time-") as directory,
        stage(Path(directory), CUSTOMERS, past_ms=7_200_000, step_ms=5, partitions=asked.partitions) as on,
    ):
        on.generator.feed(ORDERS)
        wait_counted(on.recovery, ORDERS, seconds=300)
        Console().print(measure(on, asked.times, profile=asked.profile))


if __name__ == "__main__":
    main()
