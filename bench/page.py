"""What the first paint of the page costs the server: applications with 1,000 savepoints, of 200 partitions each.

    PYTHONPATH=plugins:. .venv/bin/python bench/page.py [--applications 10] [--savepoints 1000] [--partitions 200] [--requests 20]

Each screen is asked for as a browser does, through the page with its cache, over a repository in a directory. *cold* is the first request of a process that
has its imports behind it: it waits for a moment only, and shows "reading" where that is not enough. *after a new status* is one that reads and decodes
it, *warm* the median of the others. Who calls is settled beforehand: what Airflow's auth manager takes is not measured. The goal is 300 ms on a quiet
machine. It asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from streams_recovery.core import codec
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.status.savepoint_detail import savepoint_detail
from streams_recovery.ui.pages import Pages
from tests.support.airflow.recovery_page import Site
from tests.support.examples.manifests import copied, manifest_with, partition
from tests.support.examples.statuses import history, report

GOAL_MS = 300


class Everything:
    """A visitor who may see and start everything."""

    name = "somebody"
    dag_ids: frozenset[str] = frozenset()

    def sees(self, name: str) -> bool:
        return bool(name)

    may_trigger = may_answer = sees


def milliseconds(ask: Callable[[], Any]) -> float:
    """One request."""
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """Measure, and print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("applications", 10), ("savepoints", 1_000), ("partitions", 200), ("requests", 20)):
        options.add_argument(f"--{name}", type=int, default=default)
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        site, now = Site(Path(directory)), time.time_ns() // 1_000_000
        os.environ["STREAMS_RECOVERY_CONFIG_DIR"] = str(site.configs)
        names = [f"app-{number:02}" for number in range(args.applications)]
        status = replace(report(savepoints=args.savepoints), taken_at=now, history=history(now, 500))
        for name in names:
            site.configure(name)
            site.observed(replace(status, name=name, application_id=f"{name}-app"))
        savepoint_id = status.savepoints[-1].savepoint_id
        images = [replace(partition([copied(0, 5)], [], end=5), partition=number) for number in range(args.partitions)]
        detail = codec.encode(savepoint_detail(manifest_with(*images))) | {"application_id": "app-00-app", "savepoint_id": savepoint_id}
        site.repository().create(Layout("app-00-app").detail(savepoint_id), codec.dumps(detail))
        show(args, names, site, status, savepoint_id)


def show(args: argparse.Namespace, names: list[str], site: Site, status: Any, savepoint_id: str) -> None:
    """Each screen, cold, after a new status, and warm."""
    visitor: Any = Everything()
    screens: dict[str, Callable[[Pages], Any]] = {
        f"{len(names)} applications": lambda pages: pages.applications(visitor),
        "one application, all savepoints": lambda pages: pages.application(visitor, "app-00", "", "all"),
        "plan of an instant": lambda pages: pages.instant(
            visitor, "app-00", str(status.savepoints[500 % len(status.savepoints)].captured_at), "all"
        ),
        f"one savepoint, {args.partitions} partitions": lambda pages: pages.savepoint(visitor, "app-00", savepoint_id),
    }
    Pages().applications(visitor)
    table = Table(
        "screen", "cold, ms", "after a new status, ms", "warm, ms", "kB", title=f"{args.savepoints} savepoints; goal {GOAL_MS} ms"
    )
    for screen, ask in screens.items():
        pages = Pages()
        cold = milliseconds(lambda ask=ask, pages=pages: ask(pages))  # type: ignore[misc]
        site.observed(replace(status, name="app-00", application_id="app-00-app"))
        time.sleep(5.1)
        renewed = milliseconds(lambda ask=ask, pages=pages: ask(pages))  # type: ignore[misc]
        time.sleep(1)
        warm = [milliseconds(lambda ask=ask, pages=pages: ask(pages)) for _ in range(args.requests)]  # type: ignore[misc]
        size = len(ask(pages).body)
        table.add_row(screen, f"{cold:.0f}", f"{renewed:.0f}", f"{statistics.median(warm):.0f}", f"{size / 1000:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
