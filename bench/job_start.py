"""What a Spark job costs that has next to nothing to do: the check of four small files, submitted as the command line submits it.

    PYTHONPATH=plugins:. .venv/bin/python bench/job_start.py [--runs 5] [--master "local[2]"]

Prints wall-clock and processor seconds of each run, as installed and as set-up has prepared it, in turn. It asserts nothing about time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.figures import core_seconds
from embedded import spark_start
from streams_recovery.core import codec
from streams_recovery.core.jobs.spec import JobOrder
from streams_recovery.core.repository import check
from streams_recovery.core.repository.check import CheckResult, CheckSpec
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.spark_home import SPARK_HOME, build_package
from streams_recovery.engine.spark_submit import JobFiles, read_outcome, secrets_file, spark_call, submit_argv
from streams_recovery.engine.submitter import run_submit, tail
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.objects import read_receipt
from streams_recovery.storage.range_tables import PartitionRanges
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "data" / "golden" / "good"


def main() -> None:
    """Time both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--master", default="local[2]")
    arguments = parser.parse_args()
    ways: dict[str, Mapping[str, str]] = {"as installed": {}, "prepared": spark_start.environment()}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number in range(arguments.runs + 1):
        for name, variables in ways.items():
            measured = _run(variables, arguments.master)
            # The first run of each fills caches of files and bytecode.
            taken[name] += [measured] if number else []
    table = Table("job", "wall s (median)", "wall s (all)", "processor s (median)")
    for name, figures in taken.items():
        walls, cores = zip(*figures, strict=True)
        row = (f"{statistics.median(walls):.1f}", " ".join(f"{wall:.1f}" for wall in walls), f"{statistics.median(cores):.1f}")
        table.add_row(name, *row)
    Console(width=120).print(table)


def _run(variables: Mapping[str, str], master: str) -> tuple[float, float]:
    for name in ("SPARK_SUBMIT_OPTS", SPARK_HOME):
        os.environ.pop(name, None)
    os.environ.update(variables)
    location = StorageLocation(backend="filesystem", path=str(GOLDEN))
    store = SavepointStore(Repository(location), Layout("golden"))
    opened: dict[str, PartitionRanges] = {}
    files, _ = check.files_of([store.read(savepoint_id, opened) for savepoint_id in store.ids()], opened)
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        repository = Repository(StorageLocation(backend="filesystem", path=str(work)))
        (work / "golden").symlink_to(GOLDEN / "golden")
        names = [f"work/{uuid.uuid4().hex}-{what}.json" for what in ("spec", "result")]
        spec = codec.dumps(CheckSpec(application_id="golden", files=tuple(files)))
        repository.create(names[0], spec)
        before, started = core_seconds(), time.monotonic()
        with secrets_file(KafkaConnection(bootstrap_servers="127.0.0.1:9", properties={}), None) as secrets:
            call = spark_call(
                "check",
                order=JobOrder(spec=ArtifactRef.of(names[0], spec), result_key=names[1]),
                location=repository.location,
                files=JobFiles(package=build_package(work), secrets=secrets, receipt=work / "receipt.json"),
                master=master,
            )
            run_submit(submit_argv(call, master), call.environment, log=work / "log", receipt=call.receipt)
            read_outcome(repository, read_receipt(call.receipt), names[1], CheckResult, log_tail=tail(work / "log"))
        taken = time.monotonic() - started
        # Spark stops beside whatever comes next. Its processor time counts when it has ended, and the next run here is measured alone.
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                thread.join()
        return taken, core_seconds() - before


if __name__ == "__main__":
    main()
