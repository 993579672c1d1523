"""How long a broker and the example take to start, and what it costs: as Java does it by itself, and with what set-up prepares. In turns, on one machine.

    PYTHONPATH=plugins:. .venv/bin/python bench/start_time.py [--runs 3]

Prints the median of each. Core seconds (user and system, of all that was started) say more than seconds on a machine that does something else. It asserts
nothing about time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from bench.figures import core_seconds
from embedded import broker, broker_classes, class_archive, example
from embedded.jars import kafka_jars
from embedded.java import find_java
from embedded.ports import HOST, free_ports
from embedded.processes import Processes
from examples.order_processing.generator import create_topics
from streams_recovery.core.waiting import poll

Measured = tuple[float, float]


def measured(run: Callable[[], float]) -> Measured:
    """Seconds until it answered, as ``run`` tells, and core seconds until it had ended again."""
    before = core_seconds()
    return run(), core_seconds() - before


def start_broker(jvm: tuple[str, ...]) -> float:
    """Format a directory, start, stop."""
    with tempfile.TemporaryDirectory() as directory, Processes(Path(directory)) as processes:
        began = time.monotonic()
        broker._start_anywhere(processes, Path(directory) / "broker", jvm)  # noqa: SLF001 - with these options and no others
        return time.monotonic() - began


def start_example(bootstrap: str, command: list[str]) -> float:
    """To RUNNING, on an empty state."""
    [port] = free_ports(1)

    def running() -> bool | None:
        try:
            return True if httpx.get(f"http://{HOST}:{port}/health", timeout=5).json()["state"] == "RUNNING" else None
        except httpx.TransportError:
            return None

    with tempfile.TemporaryDirectory() as directory:
        own = {
            "BOOTSTRAP_SERVERS": bootstrap,
            "HTTP_PORT": str(port),
            "STATE_DIR": f"{directory}/state",
            "APPLICATION_ID": uuid.uuid4().hex,
        }
        began = time.monotonic()
        child = subprocess.Popen(command, env={**os.environ, **own}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if poll(running, seconds=180) is None:
                raise SystemExit("the example did not come up")
            return time.monotonic() - began
        finally:
            child.terminate()
            child.wait()


def examples() -> dict[str, list[str]]:
    """The commands that start the example, by what is prepared."""
    own = example.program()
    java = [str(find_java()), "-Xmx384m"]
    return {
        "source file": [*java, "-cp", f"{kafka_jars()}/*", str(example.SOURCE)],
        "compiled": [*java, "-cp", own.joined_class_path, example.SOURCE.stem],
        "compiled, quick flags, archive": [
            *java,
            *class_archive.options(own, example.exercise),
            "-cp",
            own.joined_class_path,
            example.SOURCE.stem,
        ],
    }


def measure(runs: int) -> dict[tuple[str, str], list[Measured]]:
    """Every way in each turn."""
    own = broker_classes.program()
    brokers = {"as it is": (), "quick flags": own.flags, "quick flags, archive": class_archive.options(own, broker.EXERCISE)}
    found: dict[tuple[str, str], list[Measured]] = {}
    with tempfile.TemporaryDirectory() as directory, Processes(Path(directory)) as processes:
        port, controller = free_ports(2)
        bootstrap = broker.start_broker(processes, Path(directory) / "broker", port=port, controller_port=controller)
        create_topics(bootstrap)
        for _ in range(runs):
            for name, jvm in brokers.items():
                found.setdefault(("broker", name), []).append(measured(lambda jvm=jvm: start_broker(jvm)))  # type: ignore[misc]
            for name, command in examples().items():
                found.setdefault(("example", name), []).append(measured(lambda command=command: start_example(bootstrap, command)))  # type: ignore[misc]
    return found


def main() -> None:
    """Run it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--runs", type=int, default=3)
    table = Table("what", "how", "seconds", "core seconds")
    for (what, how), values in measure(arguments.parse_args().runs).items():
        seconds, cores = (statistics.median(column) for column in zip(*values, strict=True))
        table.add_row(what, how, f"{seconds:.1f}", f"{cores:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
