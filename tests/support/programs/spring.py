"""The jars of Spring, for the endpoints that applications of Spring copy. ``python -m tests.support.programs.spring`` writes their lock file anew."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from embedded.jars import JarSet, jar_files, write_lock

VERSION: Final = "4.0.0"
SPRING: Final = JarSet(
    name=f"spring-boot-{VERSION}",
    modules=(
        ("org.springframework.boot", "spring-boot-starter-web", VERSION),
        ("org.springframework.boot", "spring-boot-starter-kafka", VERSION),
    ),
    lock=Path(__file__).with_name("spring.lock"),
    megabytes=20,
    without=("org.apache.kafka", "com.fasterxml.jackson.core"),
)
# Of Kafka's jars those that an application has. The others are the broker's, with loggers of their own.
_KAFKA: Final = ("kafka-clients-", "kafka-streams-", "jackson-", "rocksdbjni-", "lz4-", "snappy-", "zstd-")


def class_path() -> tuple[Path, ...]:
    """What an application of Spring for Apache Kafka has on its class path."""
    return (*jar_files(SPRING), *(jar for jar in jar_files() if jar.name.startswith(_KAFKA)))


if __name__ == "__main__":
    write_lock(SPRING)
