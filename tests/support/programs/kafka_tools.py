"""Kafka's own command line tools; what else they need is among the broker's jars. ``python -m tests.support.programs.kafka_tools`` writes their lock."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from embedded.jars import KAFKA_VERSION, JarSet, jar_files, write_lock

TOOLS: Final = JarSet(
    name=f"kafka-command-line-{KAFKA_VERSION}",
    # Brokers need no CSV since 4.4, the tools do.
    modules=(("org.apache.kafka", "kafka-tools", KAFKA_VERSION), ("com.fasterxml.jackson.dataformat", "jackson-dataformat-csv", "2.21.7")),
    lock=Path(__file__).with_name("kafka_tools.lock"),
    megabytes=2,
    alone=True,
)


def class_path() -> tuple[Path, ...]:
    """The tools, and what they need. Downloads the tools once."""
    return (*jar_files(), *jar_files(TOOLS))


if __name__ == "__main__":
    write_lock(TOOLS)
