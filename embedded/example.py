"""The example application as a program: compiled once, with an archive of its classes."""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial
from pathlib import Path

import httpx

from embedded.broker import start_broker
from embedded.broker_classes import ENDING_SECONDS
from embedded.class_archive import Program, archive_of
from embedded.compiled import compiled
from embedded.jars import jar_files
from embedded.java import QUICK, find_java
from embedded.ports import HOST, free_ports
from embedded.processes import Processes
from examples.order_processing.generator import Generator, create_topics
from examples.order_processing.orders import World
from streams_recovery.core.errors import ApplicationNotReady
from streams_recovery.core.waiting import poll

SOURCE = Path(__file__).resolve().parents[1] / "examples" / "order_processing" / "OrderProcessing.java"
_ORDERS, _SECONDS = 300, 120
_STORES = ("order-totals", "enriched-orders", "orders-per-minute", "order-sessions", "order-versions")


def program() -> Program:
    """The example. Its jar comes last: programs that have the same class path and more can use its archive too."""
    jars = jar_files()
    return Program(name="example", class_path=(*jars, compiled(SOURCE, jars)), flags=QUICK)


def variables() -> dict[str, str]:
    """The variables that ``include/configs/order-processing.yaml`` needs to run what was compiled, and not the source."""
    own = program()
    archive = archive_of(own, exercise)
    named = {} if archive is None else {"STREAMS_RECOVERY_EXAMPLE_CLASSES": f"-XX:SharedArchiveFile={archive}"}
    return {"STREAMS_RECOVERY_CLASSPATH": own.joined_class_path, "STREAMS_RECOVERY_EXAMPLE": SOURCE.stem, **named}


def exercise(option: str) -> None:
    """The example, with this option of its JVM, processes some orders, answers what it is asked, and ends."""
    with tempfile.TemporaryDirectory(prefix="example-") as directory, Processes(Path(directory)) as processes:
        port, controller, http = free_ports(3)
        bootstrap = start_broker(processes, Path(directory) / "broker", port=port, controller_port=controller)
        create_topics(bootstrap)
        environment = {"BOOTSTRAP_SERVERS": bootstrap, "HTTP_PORT": str(http), "STATE_DIR": f"{directory}/state"}
        command = [str(find_java()), *QUICK, option, "-cp", program().joined_class_path, SOURCE.stem]
        processes.start("example", command, environment={**os.environ, **environment})
        generator = Generator(
            bootstrap, World(seed=1, customers=50, products=10, start_ms=time.time_ns() // 1_000_000 - 3_600_000, step_ms=1000)
        )
        generator.feed_reference_data()
        generator.feed(_ORDERS)
        _use(processes, f"http://{HOST}:{http}")
        processes.stop("example", seconds=ENDING_SECONDS)


def _use(processes: Processes, url: str) -> None:
    def requested(path: str) -> httpx.Response | None:
        processes.check("example")
        try:
            answer = httpx.get(f"{url}{path}", timeout=10)
        except httpx.TransportError:
            return None
        return answer if answer.is_success else None

    def counted() -> bool | None:
        answer = requested("/state/order-totals")
        return True if answer and sum(total["count"] for total in answer.json().values()) == _ORDERS else None

    if poll(counted, seconds=_SECONDS, interval=0.3) is None:
        raise ApplicationNotReady(
            f"the example did not count {_ORDERS} orders in {_SECONDS} s", next_step="try again with less to do on this machine"
        )
    for path in ("/health", *(f"/state/{store}" for store in _STORES)):
        poll(partial(requested, path), seconds=_SECONDS)
    for verb in ("pause", "resume"):
        httpx.post(f"{url}/{verb}", timeout=10)
