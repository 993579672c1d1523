"""How often the running example application can be cut exactly while nobody holds it, by how much comes in, and what a cut would save a restore.

    PYTHONPATH=plugins:. .venv/bin/python bench/live_cuts.py [--looks 60] [--backlog 300000]

Orders come at random moments (so many a second on average, as from customers who do not know of each other) and the application commits ten times a second.
For each rate prints how many looks found an exact cut. At the end the application reads a backlog: by its speed, how long it takes for the input of an hour,
which is what a restore from an hourly savepoint reads again. It asserts nothing.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.restore_time import Stage, stage
from embedded.demo.checks import wait_counted
from streams_recovery.core.errors import TransientError
from streams_recovery.core.kafka_types import Consistency, QuiesceMode
from streams_recovery.core.waiting import poll
from streams_recovery.operations.discovery import discover
from streams_recovery.operations.savepoint.capture import attempt_cut
from streams_recovery.operations.savepoint.values import Quiesced

CUSTOMERS, PAUSE = 300, 0.5
RATES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 100.0, 1_000.0, 4_000.0)
# From here on orders are sent evenly: a random pause of less than a millisecond is none.
EVENLY = 500.0
NOT_HELD = Quiesced(
    savepoint_id="", mode=QuiesceMode.LIVE, since=0, members=(), still=False, why_not="the application was not held", assumed=()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """So many of so many were exact, and how long one took (s, median)."""

    exact: int
    all: int
    seconds: float


@contextmanager
def orders(on: Stage, rate: float) -> Iterator[None]:
    """They come in meanwhile."""
    stop, moments = threading.Event(), random.Random(7)  # noqa: S311  # not a secret

    def feed() -> None:
        if rate >= EVENLY:
            on.generator.feed(10**9, rate=rate, stop=stop)
        while not stop.wait(moments.expovariate(rate)):
            on.generator.feed(1)

    with ThreadPoolExecutor(1) as pool:
        feeding = pool.submit(feed)
        try:
            yield
        finally:
            stop.set()
    feeding.result()


def looks(on: Stage, count: int) -> Looks:
    """Looks at the application as a live savepoint looks at it, half a second apart."""
    found, exact, seconds = discover(on.recovery), 0, []
    for number in range(count):
        began = time.monotonic()
        try:
            exact += attempt_cut(on.recovery, found, NOT_HELD, number).consistency is Consistency.EXACT
        except TransientError as error:
            print(error.reason)  # noqa: T201
        seconds.append(time.monotonic() - began)
        time.sleep(PAUSE)
    return Looks(exact=exact, all=count, seconds=statistics.median(seconds))


def catching_up(on: Stage, backlog: int) -> float:
    """Records a second that the application reads when it has much to read."""
    on.recovery.application.stop(timeout=60)
    on.generator.feed(backlog)
    sent = on.generator.sent
    on.recovery.application.start()
    poll(lambda: all(status.streams_state == "RUNNING" for status in on.recovery.application.status()) or None, seconds=180, interval=0.2)
    began = time.monotonic()
    wait_counted(on.recovery, sent, seconds=900)
    return backlog / (time.monotonic() - began)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--looks", type=int, default=60)
    parser.add_argument("--backlog", type=int, default=300_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="live-cuts-") as directory, stage(Path(directory), CUSTOMERS) as on:
        on.generator.feed(1_000)
        wait_counted(on.recovery, 1_000, seconds=300)
        found = []
        for rate in RATES:
            with orders(on, rate):
                time.sleep(3)
                found.append((rate, looks(on, arguments.looks)))
                print(f"{rate:g} orders a second: {found[-1][1]}")  # noqa: T201
        speed = catching_up(on, arguments.backlog)
    table = Table("orders a second", "looks that found an exact cut", "a look takes", "an hour's input is read again in")
    for rate, seen in found:
        share = f"{seen.exact} of {seen.all} ({100 * seen.exact / seen.all:.0f} %)"
        table.add_row(f"{rate:g}", share, f"{1000 * seen.seconds:.0f} ms", f"{3600 * rate / speed:.1f} s")
    Console().print(table)
    print(f"reads {speed:,.0f} orders a second")  # noqa: T201


if __name__ == "__main__":
    main()
