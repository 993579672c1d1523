"""Kafka's jars in other versions than the embedded one. ``python -m tests.support.programs.kafka_versions`` writes their lock files anew."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from embedded.broker import BrokerExtras, start_broker
from embedded.jars import KAFKA, KAFKA_VERSION, JarSet, write_lock
from embedded.ports import free_ports
from embedded.processes import Processes

# The last of each line that companies still run, and the newest one.
VERSIONS: Final = ("3.7.2", "3.9.1", "4.0.1", "4.3.1", "4.4.0")
# The streams group protocol (KIP-1071) is there for everybody since then.
STREAMS_PROTOCOL: Final = tuple(version for version in VERSIONS if version >= "4.2")
# How soon a broker gives up a member that was killed. Nobody else can remove one of a group of the streams protocol.
_GIVEN_UP: Final = {
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "2000",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
}


def kafka(version: str) -> JarSet:
    """A broker and Kafka Streams of this version."""
    if version == KAFKA_VERSION:
        return KAFKA
    return JarSet(
        name=f"kafka-{version}",
        modules=(
            ("org.apache.kafka", "kafka_2.13", version),
            ("org.apache.kafka", "kafka-streams", version),
            ("org.slf4j", "slf4j-simple", "1.7.36"),
        ),
        lock=Path(__file__).with_name(f"kafka-{version}.lock"),
        megabytes=120,
    )


def broker_of(version: str, directory: Path, processes: Processes, *format_arguments: str) -> str:
    """Start a broker of this version with its data in ``directory``, and return its address."""
    port, controller = free_ports(2)
    settings = _GIVEN_UP if version in STREAMS_PROTOCOL else {}
    extras = BrokerExtras(jars=kafka(version), settings=settings, format_arguments=format_arguments)
    return start_broker(processes, directory / "broker", port=port, controller_port=controller, extras=extras)


if __name__ == "__main__":
    for each in VERSIONS:
        if each != KAFKA_VERSION:
            write_lock(kafka(each))
