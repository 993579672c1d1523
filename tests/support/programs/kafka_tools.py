"""The jars of Kafka's own command line tools. ``python -m tests.support.programs.kafka_tools`` writes their lock file anew."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from embedded.jars import KAFKA_VERSION, JarSet, write_lock

TOOLS: Final = JarSet(
    name=f"kafka-tools-{KAFKA_VERSION}",
    modules=(("org.apache.kafka", "kafka-tools", KAFKA_VERSION),),
    lock=Path(__file__).with_name("kafka_tools.lock"),
    megabytes=20,
)

if __name__ == "__main__":
    write_lock(TOOLS)
