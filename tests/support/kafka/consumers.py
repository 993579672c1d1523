"""Consumers on a test's topics, an application that starts on demand, and the command line beside a test's configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.rig import wait
from tests.support.applications.small import RUNNING, STOPPED
from tests.support.project import PROJECT


def committed(recovery: RecoveryContext, *partitions: TopicPartition, group: str | None = None) -> list[tuple[int, str] | None]:
    found = recovery.groups.committed(group or recovery.application_id, partitions)
    return [None if (known := found[tp]) is None else (known.offset, known.metadata) for tp in partitions]


def joining(  # each is what some test changes
    recovery: RecoveryContext,
    group: str,
    topic: str,
    *,
    client: str = "it-member",
    protocol: str = "classic",
    **callbacks: Callable[[Consumer, list[Any]], None],
) -> Consumer:
    """A consumer that begins to join, with what ``Consumer.subscribe`` is to call."""
    settings = {
        "group.id": group,
        "client.id": client,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "group.protocol": protocol,
    }
    consumer = Consumer(recovery.connection.client_config(**settings))
    consumer.subscribe([topic], **callbacks)
    return consumer


@contextmanager
def living(recovery: RecoveryContext, topic: str, client: str, *, static: str = "", shown_as: str = "") -> Iterator[None]:
    """A consumer of the application's group as a thread of Kafka Streams has it: whoever removes it sees it again after a heartbeat. ``static`` is its
    ``group.instance.id``: then it does not leave when it is closed. ``shown_as`` is the client id that the group shows of it, when that is another one.
    """
    settings = {
        **({"group.instance.id": static} if static else {}),
        "group.id": recovery.application_id,
        "client.id": client,
        "heartbeat.interval.ms": 500,
        "session.timeout.ms": 6_000,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(recovery.connection.client_config(**settings))
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            consumer.poll(0.1)
        consumer.close()

    consumer.subscribe([topic])
    worker = threading.Thread(target=work)
    worker.start()
    try:
        wait(
            lambda: any(one.client_id == (shown_as or client) for one in recovery.groups.describe(recovery.application_id).members),
            seconds=60,
        )
        yield
    finally:
        over.set()
        worker.join()


@contextmanager
def member(
    recovery: RecoveryContext, group: str, topic: str, *, client: str = "it-member", protocol: str = "classic"
) -> Iterator[Consumer]:
    """A consumer that has joined."""
    consumer = joining(recovery, group, topic, client=client, protocol=protocol)
    try:
        while not consumer.assignment():
            consumer.poll(0.2)
        yield consumer
    finally:
        consumer.close()


def first_read(recovery: RecoveryContext, group: str, topic: str) -> int | None:
    """Where a consumer of this group really goes on: the offset of the first record it gets, None for none within a while."""
    consumer = joining(recovery, group, topic)
    polls_left = 15
    try:
        while polls_left:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                return int(message.offset() or 0)
            polls_left -= 1 if consumer.assignment() else 0
        return None
    finally:
        consumer.close()


def running_once(started: Path) -> list[str]:
    """A program that says that the application runs once this file is there."""
    states = json.dumps(json.dumps(RUNNING)), json.dumps(json.dumps(STOPPED))
    return [sys.executable, "-c", f"import os; print({states[0]} if os.path.exists('{started}') else {states[1]})"]


def cli(tmp_path: Path, recovery: RecoveryContext, *arguments: str) -> tuple[int, str, str]:
    kafka = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": recovery.connection.bootstrap_servers}})
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "STREAMS_RECOVERY"))}
    places = {"PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]), "COLUMNS": "1000"}
    done = subprocess.run(
        [sys.executable, "-m", "streams_recovery", *arguments, "--configs", str(tmp_path)],
        env=clean | places | {"AIRFLOW_CONN_KAFKA_DEFAULT": kafka},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def invoked(directory: Path, recovery: RecoveryContext, *arguments: str) -> Result:
    """The command line in this process, beside a test's configuration in ``directory``. An error is the result's exception."""
    kafka = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": recovery.connection.bootstrap_servers}})
    return CliRunner().invoke(app, [*arguments, "--configs", str(directory)], env={"AIRFLOW_CONN_KAFKA_DEFAULT": kafka, "COLUMNS": "1000"})
