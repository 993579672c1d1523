"""The archive of a broker's classes: what it depends on, and what a broker has to do so that it loads what brokers load here."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]  # public, but its stubs do not say so

from embedded.class_archive import Program
from embedded.jars import jar_files
from embedded.java import QUICK
from embedded.processes import Processes

Start = Callable[[Processes, Path, Sequence[str]], str]
# A JVM that ends writes tens of megabytes first.
ENDING_SECONDS = 300.0
_TOPIC, _RECORDS, _SECONDS = "exercise", 500, 60


def program() -> Program:
    """A broker, and the tool that formats its directory."""
    return Program(name="broker", class_path=jar_files(), flags=QUICK)


def exercise(start: Start, option: str) -> None:
    """A broker that ``start`` starts, with this option of its JVM, serves each kind of client once and ends."""
    with tempfile.TemporaryDirectory(prefix="broker-") as directory, Processes(Path(directory)) as processes:
        bootstrap = start(processes, Path(directory) / "broker", (*QUICK, option))
        _use({"bootstrap.servers": bootstrap, "log_level": 0})
        processes.stop("broker", seconds=ENDING_SECONDS)


def _use(client: dict[str, str | int | float]) -> None:
    admin = AdminClient(dict(client))
    for created in admin.create_topics([NewTopic(_TOPIC, 2, 1, config={"cleanup.policy": "compact"})]).values():
        created.result(_SECONDS)
    consumer = Consumer({**client, "group.id": _TOPIC, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([_TOPIC])
    producer = Producer({**client, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    for number in range(_RECORDS):
        producer.produce(_TOPIC, b"value", b"%d" % number)
    producer.flush(_SECONDS)
    producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), _SECONDS)
    producer.commit_transaction(_SECONDS)
    if consumer.consume(_RECORDS, _SECONDS):
        consumer.commit(asynchronous=False)
    consumer.close()
    for described in admin.describe_configs([ConfigResource(ResourceType.TOPIC, _TOPIC)]).values():
        described.result(_SECONDS)
    admin.list_consumer_groups(request_timeout=_SECONDS).result(_SECONDS)
    for deleted in (*admin.delete_consumer_groups([_TOPIC]).values(), *admin.delete_topics([_TOPIC]).values()):
        deleted.result(_SECONDS)
