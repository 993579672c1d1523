"""What the commands share: arguments, the open workbench, and ways to print."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from streams_recovery.cli.connections import EnvironmentConnections
from streams_recovery.cli.running import Runner
from streams_recovery.config.loader import load_named
from streams_recovery.core import codec
from streams_recovery.workbench import Workbench, open_workbench

Name = Annotated[str, typer.Argument(metavar="APP", help="Name of the application's configuration file.")]
Configs = Annotated[Path, typer.Option("--configs", envvar="STREAMS_RECOVERY_CONFIG_DIR", help="Directory of the configuration files.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
Logs = Annotated[Path, typer.Option("--logs", help="Where Spark's logs go.")]
DEFAULT_CONFIGS, DEFAULT_LOGS = Path("include/configs"), Path("build/logs")


def say(line: str) -> None:
    """One line for people, on stderr."""
    Console(stderr=True).print(line, highlight=False)


@contextmanager
def workbench(name: str, configs: Path) -> Iterator[Workbench]:
    """The workbench of a configured application, with connections from the environment."""
    with open_workbench(load_named(name, configs, os.environ), EnvironmentConnections(os.environ)) as bench:
        yield bench


def runner(bench: Workbench, logs: Path) -> Runner:
    """Whole runs on this workbench."""
    master = EnvironmentConnections(os.environ).spark_master(bench.config.spark.connection)
    return Runner(bench=bench, master=master, logs=logs, say=say)


def print_json(value: Any) -> None:
    """One of our values, or plain JSON, on stdout."""
    sys.stdout.write(json.dumps(codec.encode(value), indent=2) + "\n")
