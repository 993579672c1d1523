"""Kafka's jars in other versions than the embedded one. ``python -m tests.support.programs.kafka_versions`` writes their lock files anew."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from embedded.jars import KAFKA, KAFKA_VERSION, JarSet, write_lock

# The last of each line that companies still run, and the newest one.
VERSIONS: Final = ("3.7.2", "3.9.1", "4.0.1", "4.3.1", "4.4.0")


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


if __name__ == "__main__":
    for each in VERSIONS:
        if each != KAFKA_VERSION:
            write_lock(kafka(each))
