"""WordCountDemo of Kafka's own examples, as somebody runs it who has never heard of us: a process without any endpoint, started by a program of ours."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from embedded.jars import JarSet, fetched, jar_files
from embedded.java import QUICK, find_java
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.groups import ConsumerGroups
from tests.support.kafka.records import connect
from tests.support.project import PROJECT

# The newest of which the examples are published.
EXAMPLES: Final = JarSet(
    name="kafka-streams-examples-4.3.1",
    modules=(("org.apache.kafka", "kafka-streams-examples", "4.3.1"),),
    lock=Path(__file__).parents[1] / "programs" / "kafka-streams-examples-4.3.1.lock",
    megabytes=1,
    alone=True,
)
WORD_COUNT: Final = "streams-wordcount"
INPUT, OUTPUT = "streams-plaintext-input", "streams-wordcount-output"
_READ: Final = TopicPartition(INPUT, 0)
STORE: Final = "KSTREAM-AGGREGATE-STATE-STORE-0000000003"
INTERNAL: Final = tuple(f"{WORD_COUNT}-{STORE}-{kind}" for kind in ("changelog", "repartition"))


@dataclass(frozen=True)
class WordCountDemo:
    """The running program, and the one that controls it, which answers status, stop, start and wipe."""

    bootstrap: str
    control: Path

    def say(self, *lines: str) -> None:
        """Write lines into its input, and wait until it has committed behind them."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for line in lines:
            producer.produce(INPUT, line)
        assert producer.flush(30) == 0
        with KafkaCluster(connect(self.bootstrap)) as cluster, ConsumerGroups(connect(self.bootstrap)) as groups:
            [end] = cluster.high_watermarks([_READ]).values()

            def committed() -> bool | None:
                found = groups.last_committed(WORD_COUNT).get(_READ)
                return True if found is not None and found.offset >= end else None

            assert poll(committed, seconds=90, interval=0.2), "it does not process"

    def run(self, verb: str) -> str:
        environment = {"APPLICATION_ID": WORD_COUNT, "PATH": "/usr/bin:/bin", "STOP_TIMEOUT_SECONDS": "60"}
        return subprocess.run([str(self.control), verb], env=environment, check=True, capture_output=True, text=True, timeout=120).stdout


@contextmanager
def word_count_demo(bootstrap: str, directory: Path) -> Iterator[WordCountDemo]:
    """The demo with its topics, nothing of it left at the end."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in (INPUT, OUTPUT)]).values():
        made.result(30)
    demo = WordCountDemo(bootstrap, _control(bootstrap, directory))
    demo.run("start")
    try:
        yield demo
    finally:
        demo.run("stop")
        for gone in admin.delete_topics([INPUT, OUTPUT, *INTERNAL]).values():
            gone.exception(30)


def _control(bootstrap: str, directory: Path) -> Path:
    """The program of examples/programs with what is this application's, as somebody copies it."""
    settings, state, control = (directory / name for name in ("streams.properties", "state", "control"))
    # Commits are not to be waited for half a minute.
    settings.write_text(f"bootstrap.servers={bootstrap}\nstate.dir={state}\ncommit.interval.ms=200\n")
    jars = ":".join(map(str, (*jar_files(), *fetched(EXAMPLES).glob("*.jar"))))
    program = [str(find_java()), *QUICK, "-cp", jars, "org.apache.kafka.streams.examples.wordcount.WordCountDemo", str(settings)]
    variables = {"RECORDS": str(directory / "records"), "STATE": str(state), "PROGRAM": json.dumps(program)}
    exported = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    control.write_text(f'#!/bin/sh\n{exported}exec {sys.executable} {PROJECT / "examples" / "programs" / "control.py"} "$@"\n')
    control.chmod(0o755)
    return control
